package actors

import (
	"context"
	"reflect"
	"sync"

	"github.com/leasehold/leasehold/messages"
)

// copies lets the copies of one request be one. A client sends a request again when its answer is late or lost; without this,
// the copy that comes second would be told that the work is a duplicate, to a caller who has asked once. Copies that come
// together are carried out once. One that comes later is carried out like any request: whether the work stands is for the
// ledger and the fence to say, and only the flags that say "duplicate" are those of the first answer.
type copies struct {
	inFlight sync.Map // copyOf → *flight

	mu     sync.Mutex
	recent map[copyOf]answered
	order  []copyOf // of recent, a ring
	next   int
}

const (
	maxRecent     = 4096 // answers whose flags are kept
	maxRecentSize = 64   // events of an append whose flags are kept
)

// answered is what the first copy of a request was told.
type answered struct {
	epoch     uint64
	appended  []messages.Appended
	duplicate bool
}

type copyOf struct {
	key     messages.Key
	id      string
	idemKey string // of a command
}

// flight is a request that is carried out.
type flight struct {
	req   *messages.Request
	done  chan struct{}
	reply *messages.Reply // read after done
}

// do returns the reply to a request: what work returns, or what it returned to the copy that came first.
func (c *copies) do(ctx context.Context, req *messages.Request, work func() *messages.Reply) *messages.Reply {
	name := copyOf{req.Key, req.ID, req.IdemKey}
	mine := &flight{req: req, done: make(chan struct{})}
	found, taken := c.inFlight.LoadOrStore(name, mine)
	first := found.(*flight)
	if taken && !sameWork(first.req, req) {
		return work() // an id that was used for something else
	}
	if taken {
		select {
		case <-first.done:
			reply := *first.reply
			return &reply
		case <-ctx.Done():
			return &messages.Reply{Error: messages.AsError(messages.Unknown(req.Key, 0, messages.AsError(ctx.Err())))}
		}
	}
	defer func() {
		c.inFlight.Delete(name)
		if mine.reply == nil { // work panicked
			mine.reply = messages.Refuse(&messages.Error{Code: messages.CodeInternal, Key: req.Key.String(), Message: "the request failed"})
		}
		close(mine.done)
	}()
	reply := work()
	c.asAnsweredBefore(name, reply)
	kept := *reply // the caller may change what it gets
	mine.reply = &kept
	return reply
}

// sameWork says whether two requests ask for the same, however they came here.
func sameWork(a, b *messages.Request) bool {
	x, y := *a, *b
	x.TimeoutMS, y.TimeoutMS, x.Avoid, y.Avoid = 0, 0, nil, nil
	return reflect.DeepEqual(x, y)
}

// asAnsweredBefore gives the reply the flags of the first answer to the same request at the same epoch, or keeps its own as
// those.
func (c *copies) asAnsweredBefore(name copyOf, reply *messages.Reply) {
	if reply.Error != nil || len(reply.Appended) > maxRecentSize {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first, ok := c.recent[name]
	if !ok {
		c.keep(name, answered{epoch: reply.Epoch, appended: reply.Appended, duplicate: reply.Duplicate})
		return
	}
	if first.epoch != reply.Epoch || len(first.appended) != len(reply.Appended) {
		return
	}
	for i, a := range reply.Appended {
		if a.Seq != first.appended[i].Seq {
			return
		}
	}
	reply.Appended, reply.Duplicate = first.appended, first.duplicate
}

func (c *copies) keep(name copyOf, first answered) {
	if c.recent == nil {
		c.recent = map[copyOf]answered{}
	}
	if len(c.order) < maxRecent {
		c.order = append(c.order, name)
	} else {
		delete(c.recent, c.order[c.next])
		c.order[c.next] = name
		c.next = (c.next + 1) % maxRecent
	}
	c.recent[name] = first
}
