package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/messages"
)

// memory is what a client was told. It lets go of what was lost as soon as it is told of the loss, and no sooner.
// Requests that are under way together share it, hence the mutex.
type memory struct {
	mu   sync.Mutex
	seen messages.Seen
	told []place // grows only, so that a copy stays as it is
	mark mark
}

// place is an event of this client's own that was acknowledged.
type place struct {
	seq     int64
	id, key string
}

func (m *memory) now() (messages.Seen, []place, mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen, m.told, m.mark
}

// learn takes what a reply tells, as actors/client does.
func (m *memory) learn(req *messages.Request, reply *messages.Reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch state := reply.Seen(); {
	case reply.Error != nil && reply.Error.Code == messages.CodeHistoryLost:
		if m.seen == req.Seen || m.seen.Before(state) {
			m.seen, m.told = state, nil
		}
	case reply.Error != nil && reply.Error.Code == messages.CodeUnknownTenant:
		if m.seen == req.Seen {
			m.seen.Seq, m.told = 0, nil
		}
	case reply.Error != nil || state.Before(m.seen) || state.Epoch > m.seen.Epoch && (req.Seen != m.seen || req.Action == messages.ActionSnapshot):
		// The last: nobody has said yet whether this epoch has all that was seen.
	default:
		m.seen = state
		for i, done := range reply.Appended {
			m.told = append(m.told, place{done.Seq, req.Events[i].SubjectID, req.Events[i].IdemKey})
		}
	}
}

// ask sends a request to the node that served last, and goes where the answer sends it. sent, if set, is called with the process
// before the request leaves; justified are the errors that the request asks for. nil: every node is down.
func (c *client) ask(ctx context.Context, timeout time.Duration, req messages.Request, sent func(*life), justified ...messages.Code) (*messages.Reply, *life) {
	l := c.pick()
	if l == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if sent != nil {
		sent(l)
	}
	reply := c.send(ctx, l, req, justified...)
	c.follow(errorOf(reply))
	return reply, l
}

// send sends a request to a process and checks the reply, as a real client would. What a killed process says, nobody hears.
func (c *client) send(ctx context.Context, l *life, req messages.Request, justified ...messages.Code) *messages.Reply {
	seen, told, _ := c.memo.now()
	req.Version, req.Key, req.Seen = messages.WireVersion, c.key, seen
	sent := time.Now()
	reply := l.node.Do(ctx, &req)
	if l.dead() {
		return reply
	}
	err := errorOf(reply)
	c.w.judge(c.key, string(req.Action), l, err, justified...)
	c.w.replied(history.Reply{Key: c.key, Action: req.Action, Owner: l.owner, Sent: sent, Answered: time.Now(),
		Seen: seen, State: reply.Seen(), Code: messages.CodeOf(err)})
	if err == nil {
		c.check(l, &req, reply, told)
	}
	c.memo.learn(&req, reply)
	return reply
}

// errorOf returns the error of a reply as an error that may be nil.
func errorOf(reply *messages.Reply) error {
	if reply.Error == nil {
		return nil
	}
	return reply.Error
}

// replied writes a reply down. A lease store that has lost its records knows of no tenant: that is outside of what can be judged.
func (w *world) replied(r history.Reply) {
	if r.Code == messages.CodeUnknownTenant && w.Profile.Reset {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Replies = append(w.history.Replies, r)
}

// check judges a success by what the client itself knows.
func (c *client) check(l *life, req *messages.Request, reply *messages.Reply, told []place) {
	if reply.Owner != l.owner || reply.Epoch == 0 {
		c.w.fail("Q4", c.key, "%s at %s: the reply says that it comes from %q, epoch %d", req.Action, l.owner, reply.Owner, reply.Epoch)
	}
	switch req.Action {
	case messages.ActionAppend:
		c.checkAppended(l, req, reply)
	case messages.ActionEvents:
		c.checkEvents(l, req, reply, told)
	}
}

// checkAppended: one answer for each event; those that are new follow each other.
func (c *client) checkAppended(l *life, req *messages.Request, reply *messages.Reply) {
	if len(reply.Appended) != len(req.Events) {
		c.w.fail("W2", c.key, "append at %s: %d answers to %d events", l.owner, len(reply.Appended), len(req.Events))
		return
	}
	last := int64(0)
	for i, done := range reply.Appended {
		switch {
		case done.Seq < 1 || done.Duplicate && req.Events[i].IdemKey == "":
			c.w.fail("W2", c.key, "append at %s: %s has seq %d (duplicate: %v)", l.owner, req.Events[i].SubjectID, done.Seq, done.Duplicate)
		case done.Duplicate:
		case last > 0 && done.Seq != last+1:
			c.w.fail("W2", c.key, "append at %s: %s has seq %d, the event before it %d", l.owner, req.Events[i].SubjectID, done.Seq, last)
		default:
			last = done.Seq
		}
	}
}

// checkEvents: a read names the state that it shows, and shows what this client was told.
func (c *client) checkEvents(l *life, req *messages.Request, reply *messages.Reply, told []place) {
	last := req.After
	if n := len(reply.Events); n > 0 {
		last = reply.Events[n-1].Seq
	}
	if last > max(reply.Seq, req.After) || !reply.More && last < reply.Seq {
		c.w.fail("Q4", c.key, "events at %s: from the state of seq %d, and ends at %d (more: %v)", l.owner, reply.Seq, last, reply.More)
	}
	for _, p := range told {
		if p.seq <= req.After || p.seq > last && reply.More {
			continue
		}
		i, found := slices.BinarySearchFunc(reply.Events, p.seq, func(e messages.StoredEvent, seq int64) int { return int(e.Seq - seq) })
		if !found || reply.Events[i].SubjectID != p.id {
			c.w.fail("I4", c.key, "events at %s, e%d/%d: %s was acknowledged at seq %d, is not there, and was not said to be lost", l.owner, reply.Epoch, reply.Seq, p.id, p.seq)
			return
		}
	}
}
