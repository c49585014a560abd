package actors

import (
	"context"
	"reflect"
	"sync"

	"github.com/leasehold/leasehold/messages"
)

// copies carries out once what is asked more than once at the same time. A client sends a request again when its answer
// is late; without this, the copy that comes second would be told that the work is a duplicate, and may be heard first.
type copies struct {
	inFlight sync.Map // copyOf → *flight
}

type copyOf struct {
	key messages.Key
	id  string
}

// flight is a request that is carried out.
type flight struct {
	req   *messages.Request
	done  chan struct{}
	reply *messages.Reply // read after done
}

// do returns the reply to a request: what work returns, or what it returned to the copy that came first.
func (c *copies) do(ctx context.Context, req *messages.Request, work func() *messages.Reply) *messages.Reply {
	name := copyOf{req.Key, req.ID}
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
