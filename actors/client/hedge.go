package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// maxRounds bounds how often one hedge asks who the owner is, when it is told nobody: a member that stands still gets its
// share of the questions, too. But a question may cost a look at the lease store, which may be why all of this is slow.
const maxRounds = 3

// errOvertaken ends a first attempt whose hedge was answered before it.
var errOvertaken = errors.New("the hedge was answered first")

// hedge is a second way to the answer, begun while the first attempt is still waited for: a hedged request (Dean and
// Barroso, The Tail at Scale, 2013). It first asks any member who the owner is, for that runs nothing; then it sends the
// request there. It runs on a goroutine of its own, which end waits for.
type hedge struct {
	client   *Client
	req      messages.Request // not sent yet; nobody changes it
	target   string           // that is waited for; "": any member
	begun    time.Time
	deadline time.Time // of the attempt
	overtake context.CancelCauseFunc

	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	idle   bool // it was ended before it began
	sent   atomic.Bool
	won    atomic.Pointer[winner]
	done   chan struct{}
	doubt  error // why the request may stand, or may yet be done, by way of the hedge; read after done
}

// winner is a success that goes to the caller.
type winner struct {
	to    string
	reply *messages.Reply
}

// newHedge arms a hedge for an attempt with this deadline; nil: it must not have one. overtake ends the attempt.
func (r *run) newHedge(ctx context.Context, deadline time.Time, overtake context.CancelCauseFunc) *hedge {
	c := r.client
	if c.budget.floor < 0 || r.target != "" && !r.hedgeable() {
		return nil
	}
	if sure, ok := c.transport.(Sure); ok && sure.Sure(r.target) {
		return nil
	}
	h := &hedge{client: c, req: r.req, target: r.target, begun: c.cfg.Now(), deadline: deadline, overtake: overtake, done: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancel(ctx)
	h.timer = time.AfterFunc(c.budget.delay(), h.run)
	return h
}

// maxHedged is the size in bytes up to which a request is worth a second copy on the way: a larger one takes its time.
const maxHedged = 64 << 10

// hedgeable reports whether the request may be sent to an owner a second time while the first one may still be carried
// out. Two snapshots are two uploads, and take their time anyway.
func (r *run) hedgeable() bool {
	size := len(r.req.SQL) + len(r.req.Input)
	for _, arg := range r.req.Args {
		size += len(arg)
	}
	for _, event := range r.req.Events {
		size += len(event.Payload)
	}
	return r.repeatable && r.req.Action != messages.ActionSnapshot && size <= maxHedged
}

// run is the goroutine of a hedge.
func (h *hedge) run() {
	defer close(h.done)
	ctx, cancel := context.WithDeadline(h.ctx, h.deadline)
	defer cancel()
	b, denied := h.client.budget, false
	defer func() {
		if denied {
			b.count(func(s *Stats) *uint64 { return &s.Denied })
		}
	}()
	for range maxRounds {
		round, over := context.WithTimeout(ctx, b.patience())
		reply, paid, enough := h.ask(round)
		denied = denied || !enough
		owner := named(reply)
		if owner == "" {
			<-round.Done() // the next question may be answered by another member
		}
		over()
		switch {
		case ctx.Err() != nil:
			return
		case owner == "":
			continue
		case h.target == "":
			h.win("", reply)
		case owner != h.target || paid || b.take():
			h.send(ctx, owner)
		default:
			denied = true
		}
		return
	}
}

// ask asks any member who the owner is. What may be done twice at an owner that answers others is paid for. If it has
// answered nobody since this attempt began, the question burdens only those who answer, and would be asked anyway at
// the end of the attempt: they are bounded, but not to a share of the requests. reply is nil if there is none; enough says
// that the question was asked.
func (h *hedge) ask(ctx context.Context) (reply *messages.Reply, paid, enough bool) {
	b := h.client.budget
	if h.target != "" && b.silent(h.target, h.begun) {
		if !b.question() {
			return nil, false, false
		}
		defer b.asked()
	} else if paid = b.take(); !paid {
		return nil, false, false
	}
	b.count(func(s *Stats) *uint64 { return &s.Hedges })
	question := locating(&h.req)
	reply, err := h.client.deliver(ctx, "", &question)
	if err != nil || implausible("", &h.req, reply) != nil {
		return nil, paid, true
	}
	return reply, paid, true
}

// named is whom an answer to the question says should be asked; "": nobody.
func named(reply *messages.Reply) string {
	switch {
	case reply == nil:
		return ""
	case reply.Error == nil:
		return reply.Owner
	case reply.Error.Code == messages.CodeNotOwner || reply.Error.Code == messages.CodeDraining || reply.Error.Code == messages.CodeIncapable:
		return reply.Error.Owner
	}
	return ""
}

// send sends the request to an owner, and follows where that one points, but not back to where the first attempt is.
// Only a success counts: a refusal says nothing about the first attempt, which is waited for.
func (h *hedge) send(ctx context.Context, owner string) {
	for range maxHops {
		if ctx.Err() != nil {
			return
		}
		h.client.budget.count(func(s *Stats) *uint64 { return &s.Resent })
		h.sent.Store(true)
		req := h.req
		reply, err := h.client.deliver(ctx, owner, &req)
		if err == nil {
			err = implausible(owner, &h.req, reply)
		}
		switch {
		case errors.Is(err, ErrNotDelivered):
			return
		case err != nil:
			h.doubt = typed(err)
			return
		case reply.Error == nil && h.backwards(reply):
			h.doubt = stale(&h.req, reply)
			return
		case reply.Error == nil:
			h.client.budget.answered(owner, h.client.cfg.Now(), h.client.cfg.Now().Sub(h.begun))
			h.win(owner, reply)
			return
		case reply.Error.Code == messages.CodeUnknownOutcome:
			h.doubt = reply.Error
			return
		}
		if owner = named(reply); owner == "" || owner == h.target {
			return
		}
	}
}

func (h *hedge) backwards(reply *messages.Reply) bool {
	return h.req.Action != messages.ActionLocate && reply.Seen().Before(h.req.Seen)
}

// win makes a reply the answer to the attempt.
func (h *hedge) win(to string, reply *messages.Reply) {
	h.won.Store(&winner{to, reply})
	h.client.budget.count(func(s *Stats) *uint64 { return &s.Won })
	h.overtake(errOvertaken)
}

// answer takes the winner; nil: there is none so far.
func (h *hedge) answer() *winner {
	if h == nil {
		return nil
	}
	return h.won.Swap(nil)
}

// settle waits for the answer to a request that was sent a second time: where the first attempt was refused for good, the
// second one may still succeed. It takes no longer than the attempt's deadline.
func (h *hedge) settle() {
	if h != nil && h.sent.Load() {
		<-h.done
	}
}

// end ends a hedge and waits for its goroutine. It returns why the request may stand, or may yet be done, by way of it.
func (h *hedge) end() error {
	if h == nil {
		return nil
	}
	h.cancel()
	if h.idle = h.idle || h.timer.Stop(); h.idle {
		return nil
	}
	<-h.done
	return h.doubt
}
