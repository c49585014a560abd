package leaseactor

import (
	"context"
	"errors"
	"slices"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

// Actor runs one holder session as a mailbox actor. It takes the commands Acquire, Renew, Release,
// Forget and MarkLineage, and gives its reports to the function that New was given. One request is in flight at a
// time; Renew commands that come meanwhile are joined into the next one. It never blocks.
//
// It reports Expired and Resumed, but changes nothing then: the fence acts by itself. When it stops it
// gives up the request in flight, and leaves the fence to run out: whoever wants the lease released
// waits for Released first.
type Actor struct {
	holder *Holder
	report func(any)

	busy  bool
	queue []any  // commands in order of arrival; at most one Renew
	tag   uint64 // the highest Tag received

	renewing    bool   // RenewEvery goes on: the lease was granted, and neither released nor lost
	expired     bool   // Expired was reported for the present closing
	cancelTimer func() // of the expiry
}

var _ mailbox.Actor = (*Actor)(nil)

// New returns an actor for a session, or what Config.Validate refuses. report is called on the
// actor's own goroutine, and must not block.
func New(cfg Config, report func(any)) (*Actor, error) {
	h, err := NewHolder(cfg)
	if err != nil {
		return nil, err
	}
	return &Actor{holder: h, report: report, cancelTimer: func() {}}, nil
}

// Fence returns the session's fence. It is safe for concurrent use, before the actor runs too.
func (a *Actor) Fence() *Fence { return a.holder.Fence() }

// Lease returns the record as the store last answered it. It is safe for concurrent use.
func (a *Actor) Lease() messages.Lease { return a.holder.Lease() }

type (
	tick     struct{} // RenewEvery has passed
	deadline struct{} // the fence's deadline has come
	// done is the end of a request: the command, the tag that was current when it was sent, the answer.
	done struct {
		command any
		tag     uint64
		lease   messages.Lease
		err     error
	}
)

// Started implements mailbox.Actor.
func (a *Actor) Started(*mailbox.Self) {}

// Receive implements mailbox.Actor.
func (a *Actor) Receive(self *mailbox.Self, msg any) {
	switch m := msg.(type) {
	case Acquire, Forget, MarkLineage:
		a.queue = append(a.queue, m)
	case Release:
		// At once, also while another request is in flight: the holder stops first (D7).
		a.Fence().Close(messages.ReasonReleased)
		a.renewing = false
		a.queue = append(a.queue, m)
	case Renew:
		a.tag = max(a.tag, m.Tag)
		a.queueRenew()
	case tick:
		if a.renewing {
			a.queueRenew()
			self.After(a.holder.cfg.RenewEvery, tick{})
		}
	case deadline:
		a.watch(self)
	case done:
		a.busy = false
		a.answer(self, m)
	}
	a.next(self)
}

func (a *Actor) queueRenew() {
	if !slices.ContainsFunc(a.queue, func(c any) bool { _, ok := c.(Renew); return ok }) {
		a.queue = append(a.queue, Renew{})
	}
}

// next sends the next request.
func (a *Actor) next(self *mailbox.Self) {
	if a.busy || len(a.queue) == 0 {
		return
	}
	d := done{command: a.queue[0], tag: a.tag}
	a.queue = a.queue[1:]
	a.busy = true
	h := a.holder
	self.Go(func(ctx context.Context) any {
		switch d.command.(type) {
		case Acquire:
			d.lease, d.err = h.Acquire(ctx)
		case Renew:
			d.lease, d.err = h.Renew(ctx)
		case Release:
			d.err = h.Release(ctx)
		case Forget:
			d.err = h.MarkForgotten(ctx)
		case MarkLineage:
			d.err = h.MarkLineage(ctx)
		}
		return d
	})
}

// answer reports the end of a request.
func (a *Actor) answer(self *mailbox.Self, d done) {
	switch d.command.(type) {
	case Acquire:
		if d.err != nil {
			a.report(AcquireFailed{d.err})
			return
		}
		a.report(Acquired{d.lease})
		if every := a.holder.cfg.RenewEvery; every > 0 && !a.renewing {
			a.renewing = true
			self.After(every, tick{})
		}
		a.watch(self)
	case Renew:
		switch {
		case d.err == nil:
			a.report(Renewed{d.lease, d.tag})
			if a.expired && a.Fence().Open() {
				a.expired = false
				a.report(Resumed{})
			}
			a.watch(self)
		case isLost(d.err):
			a.renewing = false
			a.report(Lost{d.err})
		default:
			// Without a lease that can be renewed no request was sent, and none ever will be.
			a.renewing = a.renewing && !errors.Is(d.err, messages.ErrFenced)
			a.report(RenewFailed{d.err})
		}
	case Release:
		a.report(Released{d.err})
	case Forget:
		a.report(Forgotten{d.err})
	case MarkLineage:
		a.report(LineageMarked{d.err})
	}
}

// watch reports Expired if the window has run out, and else looks again when it will have.
func (a *Actor) watch(self *mailbox.Self) {
	a.cancelTimer()
	a.cancelTimer = func() {}
	f := a.Fence()
	if f.Reason() != "" {
		return
	}
	if left := f.Deadline().Sub(a.holder.now()); left > 0 {
		a.cancelTimer = self.After(left, deadline{})
		return
	}
	if !a.expired {
		a.expired = true
		a.report(Expired{})
	}
}

// Refuse implements mailbox.Actor: it answers a command that was taken but will not be carried out.
func (a *Actor) Refuse(_ *mailbox.Self, msg any) {
	err := &messages.Error{Code: messages.CodeClosed, Key: a.holder.cfg.Key.String(), Message: "the lease actor has stopped"}
	switch msg.(type) {
	case Acquire:
		a.report(AcquireFailed{err})
	case Renew:
		a.report(RenewFailed{err})
	case Release:
		a.Fence().Close(messages.ReasonReleased)
		a.report(Released{err})
	case Forget:
		a.report(Forgotten{err})
	case MarkLineage:
		a.report(LineageMarked{err})
	}
}

// Stopping implements mailbox.Actor.
func (a *Actor) Stopping(*mailbox.Self) {}
