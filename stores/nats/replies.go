package nats

import (
	"strconv"
	"strings"
	"sync"

	natsgo "github.com/nats-io/nats.go"
)

// replies is where the replies to requests that are sent together arrive: one subscription for the life of a link.
//
// A subscription for each exchange would be simpler, and is ruinous: a server that is told of the end of one with a wildcard
// goes through all API requests of the account that are not answered yet (nats-server 2.15, Account.checkForReverseEntries),
// with a goroutine for each such end. At thousands of requests in flight it does nothing else any more.
type replies struct {
	inbox string // reply n comes on <inbox>.n
	sub   *natsgo.Subscription

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]waiter
}

// waiter is who waits for one reply.
type waiter struct {
	i  int
	to chan<- reply // has room for all replies of its exchange
}

type reply struct {
	i   int
	msg *natsgo.Msg
}

func newReplies(nc *natsgo.Conn) (*replies, error) {
	r := &replies{inbox: nc.NewInbox(), waiting: make(map[uint64]waiter)}
	var err error
	if r.sub, err = nc.Subscribe(r.inbox+".*", r.arrived); err != nil {
		return nil, err
	}
	// What arrives was asked for, and is taken at once: nothing piles up that could be dropped.
	return r, r.sub.SetPendingLimits(-1, -1)
}

// expect names where the replies to n requests should go. They come on arrived, each once, until over is called.
func (r *replies) expect(n int) (inboxes []string, arrived <-chan reply, over func()) {
	to := make(chan reply, n)
	inboxes = make([]string, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.next
	for i := range n {
		r.waiting[r.next] = waiter{i, to}
		inboxes[i] = r.inbox + "." + strconv.FormatUint(r.next, 10)
		r.next++
	}
	return inboxes, to, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for id := first; id < first+uint64(n); id++ {
			delete(r.waiting, id)
		}
	}
}

// arrived takes a message from the subscription. One that nobody waits for any more, and a second reply, are dropped.
func (r *replies) arrived(m *natsgo.Msg) {
	id, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, r.inbox+"."), 10, 64)
	if err != nil {
		return // not ours
	}
	r.mu.Lock()
	w, ok := r.waiting[id]
	delete(r.waiting, id)
	r.mu.Unlock()
	if ok {
		w.to <- reply{w.i, m}
	}
}

// close ends the subscription; the connection may be closed already.
func (r *replies) close() { _ = r.sub.Unsubscribe() }
