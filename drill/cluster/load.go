package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

// patience is the deadline of a request: longer than any step leaves a tenant without an owner.
const patience = 30 * time.Second

// asked is one append, and what came of it.
type asked struct {
	tenant     int
	key        string // idempotency key
	sent, done time.Time
	owner      string
	epoch      uint64
	seq        int64
	code       messages.Code // "": acknowledged
	err        error
}

func (a asked) took() time.Duration { return a.done.Sub(a.sent) }

// load appends to the tenants at a steady rate, one after the other, whether earlier requests were answered or
// not. It is one app client.
type load struct {
	client *client.Client
	keys   []messages.Key
	rate   int

	running sync.WaitGroup
	stop    chan struct{}

	mu    sync.Mutex
	seen  []messages.Seen      // by tenant
	all   []asked              // answered
	told  []asked              // answered as history_lost: the declared loss
	next  []int                // by tenant, the number of its next request
	under map[string]time.Time // what is under way, and since when
}

func newLoad(c *client.Client, keys []messages.Key, rate int) *load {
	return &load{client: c, keys: keys, rate: rate, stop: make(chan struct{}), seen: make([]messages.Seen, len(keys)), next: make([]int, len(keys)), under: make(map[string]time.Time)}
}

// start begins to append.
func (l *load) start() {
	l.running.Go(func() {
		ticker := time.NewTicker(time.Second / time.Duration(l.rate))
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ticker.C:
				tenant := i % len(l.keys)
				l.running.Go(func() { l.append(tenant) })
			case <-l.stop:
				return
			}
		}
	})
}

// end appends no more, and waits for what is under way.
func (l *load) end() {
	close(l.stop)
	l.running.Wait()
}

// probe appends to some tenants at once, beside the steady load, and waits for the answers.
func (l *load) probe(tenants []int) []asked {
	out := make([]asked, len(tenants))
	var group sync.WaitGroup
	for i, tenant := range tenants {
		group.Go(func() { out[i] = l.append(tenant) })
	}
	group.Wait()
	return out
}

// append appends one event.
func (l *load) append(tenant int) asked {
	return l.ask(tenant, func(key string) messages.Request {
		return messages.Request{Action: messages.ActionAppend, Events: []messages.Event{{Kind: "drill.append", IdemKey: key}}}
	})
}

// ask sends a request that leaves an event with this key. An answer that tells of a loss is recorded, and the request is sent
// again.
func (l *load) ask(tenant int, request func(key string) messages.Request) asked {
	l.mu.Lock()
	n := l.next[tenant]
	l.next[tenant]++
	a := asked{tenant: tenant, key: fmt.Sprintf("k%06d", n), sent: time.Now()}
	id := fmt.Sprint(tenant, a.key)
	l.under[id] = a.sent
	l.mu.Unlock()
	defer func() { l.mu.Lock(); delete(l.under, id); l.mu.Unlock() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		l.mu.Lock()
		seen := l.seen[tenant]
		l.mu.Unlock()
		req := request(a.key)
		req.Key, req.Seen = l.keys[tenant], seen
		reply := l.client.Do(ctx, &req)
		a.done, a.owner, a.epoch, a.seq, a.code, a.err = time.Now(), reply.Owner, reply.Epoch, 0, "", nil
		if reply.Error != nil {
			a.code, a.err = reply.Error.Code, reply.Error
		} else if len(reply.Appended) > 0 {
			a.seq = reply.Appended[0].Seq
		}
		l.mu.Lock()
		if a.code == messages.CodeHistoryLost {
			l.told = append(l.told, a)
			l.seen[tenant] = reply.Seen()
			l.mu.Unlock()
			continue
		}
		l.all = append(l.all, a)
		if a.code == "" && l.seen[tenant].Before(reply.Seen()) {
			l.seen[tenant] = reply.Seen()
		}
		l.mu.Unlock()
		return a
	}
}

// warm opens every tenant, a few at a time.
func (l *load) warm(ctx context.Context, atATime int) error {
	for first := 0; first < len(l.keys); first += atATime {
		var batch []int
		for i := first; i < min(first+atATime, len(l.keys)); i++ {
			batch = append(batch, i)
		}
		for _, a := range l.probe(batch) {
			if a.err != nil {
				return fmt.Errorf("open tenant %d: %w", a.tenant, a.err)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// during returns what was sent from a moment on, and before another one, of some tenants (nil: all), in the order
// of its sending.
func (l *load) during(from, to time.Time, tenants []int) []asked {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []asked
	for _, a := range l.all {
		if !a.sent.Before(from) && a.sent.Before(to) && (tenants == nil || slices.Contains(tenants, a.tenant)) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b asked) int { return cmp.Compare(a.sent.UnixNano(), b.sent.UnixNano()) })
	return out
}

// settle waits until everything that was sent before a moment is answered.
func (l *load) settle(before time.Time) {
	for {
		l.mu.Lock()
		waiting := false
		for at := range l.under {
			waiting = waiting || l.under[at].Before(before)
		}
		l.mu.Unlock()
		if !waiting {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// through appends one event over a node's HTTP API.
func (l *load) through(ctx context.Context, api *http.Client, address string, tenant int) asked {
	l.mu.Lock()
	n := l.next[tenant]
	l.next[tenant]++
	l.mu.Unlock()
	key := l.keys[tenant]
	a := asked{tenant: tenant, key: fmt.Sprintf("k%06d", n), sent: time.Now()}
	body := fmt.Sprintf(`{"kind":"drill.append","idem_key":%q}`, a.key)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/v1/orgs/%s/tenants/%s/events", address, key.Org, key.Tenant), strings.NewReader(body))
	if err != nil {
		a.err = err
		return a
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Leasehold-Timeout", "1s")
	answer, err := api.Do(r)
	a.done = time.Now()
	if err != nil {
		a.err = err
		return a
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		a.err = fmt.Errorf("%s", answer.Status)
		return a
	}
	l.mu.Lock()
	l.all = append(l.all, a)
	l.mu.Unlock()
	return a
}
