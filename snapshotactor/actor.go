package snapshotactor

import (
	"context"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

// Actor is the snapshot child of a tenant. Its mailbox only starts work and hands out reports; the
// work itself, which waits for the durable store, runs beside it in two lanes: opening and taking
// snapshots, and upkeep (retention, sweeping, forgetting). In each lane one job runs at a time, in the
// order of arrival, so that a slow put holds up neither the mailbox nor the upkeep.
//
// When the actor stops, running work is cancelled; commands without an answer are then answered with
// CodeClosed. Requests that were under way may still land: a supervisor that needs to know waits for
// its report before it stops the actor.
type Actor struct {
	cfg    Config
	report func(any)

	snapshots, upkeep lane
	// publisher is set by a successful open. Its snapshots are published by the running job of the
	// snapshots lane, to which doubt belongs too.
	publisher *Publisher
	doubt     struct { // of the number that is pending
		version uint64
		reason  string
	}
	forgetting bool
}

var _ mailbox.Panicker = (*Actor)(nil)

// lane runs one job at a time.
type lane struct {
	queue   []any // commands
	current any   // the command that is being worked on; nil: none
	cancel  context.CancelFunc
}

// What the jobs send to the mailbox.
type (
	progress struct{ report any }
	finished struct {
		lane   *lane
		report any
		opened *Publisher
	}
)

// New returns an actor for Spawn of package mailbox. report is called on the actor's goroutine with one of the
// reports (Opened, Taken, …) and must not block. A Config that is not complete is reported by the
// command that needs what is missing.
func New(cfg Config, report func(any)) *Actor { return &Actor{cfg: cfg, report: report} }

// Started implements mailbox.Actor.
func (a *Actor) Started(*mailbox.Self) {}

// Receive implements mailbox.Actor.
func (a *Actor) Receive(self *mailbox.Self, msg any) {
	switch m := msg.(type) {
	case OpenTenant:
		a.snapshots.queue = append(a.snapshots.queue, m)
	case Take:
		if a.forgetting {
			a.refuse(m, a.closed("the tenant is being forgotten"))
			return
		}
		a.snapshots.queue = append(a.snapshots.queue, m)
	case Hurry:
		if _, taking := a.snapshots.current.(Take); taking {
			a.snapshots.cancel()
		}
	case RetainFrom, SweepUpTo:
		a.upkeep.queue = append(a.upkeep.queue, m)
	case ForgetUpTo:
		a.forgetting = true
		// What is queued makes no sense any more, and what runs must not hold the forgetting up.
		for _, lane := range []*lane{&a.snapshots, &a.upkeep} {
			if lane.cancel != nil {
				lane.cancel()
			}
			a.refuseQueue(lane, a.closed("the tenant is being forgotten"))
		}
		a.upkeep.queue = append(a.upkeep.queue, m)
	case progress:
		a.report(m.report)
	case finished:
		m.lane.current = nil
		m.lane.cancel()
		m.lane.cancel = nil
		if m.opened != nil {
			a.publisher = m.opened
		}
		a.report(m.report)
	}
	a.start(self, &a.snapshots)
	a.start(self, &a.upkeep)
}

// start runs the next job of a lane, if there is one and the lane is free.
func (a *Actor) start(self *mailbox.Self, l *lane) {
	if l.current != nil || len(l.queue) == 0 {
		return
	}
	if _, forget := l.queue[0].(ForgetUpTo); forget && a.snapshots.current != nil {
		return // an upload of our own must not land behind our own back
	}
	command := l.queue[0]
	if _, open := command.(OpenTenant); open {
		a.publisher = nil // whatever comes of it, the earlier epoch is over
	}
	l.queue = l.queue[1:]
	ctx, cancel := context.WithCancel(self.Context())
	l.current, l.cancel = command, cancel
	ref, publisher := self.Ref(), a.publisher
	self.Go(func(context.Context) any {
		report, opened := a.work(ctx, command, publisher, func(r any) { ref.Send(progress{r}) })
		return finished{lane: l, report: report, opened: opened}
	})
}

// work does one job, on a goroutine of its own. Of the actor it touches the configuration, and the
// doubt of the snapshots lane.
func (a *Actor) work(ctx context.Context, command any, p *Publisher, meanwhile func(any)) (report any, opened *Publisher) {
	switch c := command.(type) {
	case OpenTenant:
		return a.open(ctx, c)
	case Take:
		return a.take(ctx, c, p, meanwhile), nil
	case RetainFrom:
		if p == nil {
			return Retained{Err: invalid(a.cfg.Key, "nothing is open")}, nil
		}
		n, err := Retain(ctx, a.cfg, p.base.Epoch, c.Proven, a.cfg.Retention)
		return Retained{Count: n, Err: err}, nil
	case SweepUpTo:
		n, err := Sweep(ctx, a.cfg, c.Floor)
		return Swept{Count: n, Err: err}, nil
	default:
		n, err := DeleteForgotten(ctx, a.cfg, command.(ForgetUpTo).Floor)
		return Forgotten{Count: n, Err: err}, nil
	}
}

func (a *Actor) open(ctx context.Context, c OpenTenant) (Opened, *Publisher) {
	restored, err := Open(ctx, a.cfg, c.Grant)
	if err != nil {
		return Opened{Err: err}, nil
	}
	publisher, err := NewPublisher(a.cfg, restored)
	return Opened{Restored: restored, Err: err}, publisher
}

// take settles a number that is in doubt, cuts, and publishes.
func (a *Actor) take(ctx context.Context, c Take, p *Publisher, meanwhile func(any)) Taken {
	if p == nil {
		return Taken{Err: messages.Fenced(a.cfg.Key, 0, messages.ReasonNotPinned), Reason: c.Reason}
	}
	if p.Pending() {
		m, err := p.Settle(ctx)
		if m.Snapshot == 0 { // an earlier one: nothing was done for this Take
			return Taken{Err: err, Reason: c.Reason}
		}
		if c.Last && a.doubt.version >= c.Version {
			return Taken{Manifest: m, Version: a.doubt.version, Err: err, Reason: c.Reason, Begun: true}
		}
		meanwhile(Taken{Manifest: m, Version: a.doubt.version, Err: err, Reason: a.doubt.reason, Settled: true})
	}
	cut := a.cfg.Cut
	if c.Last {
		cut = a.cfg.CutLast
	}
	if cut == nil {
		return Taken{Err: invalid(a.cfg.Key, "nothing to cut snapshots with is configured"), Reason: c.Reason}
	}
	image, err := cut(ctx)
	if err != nil {
		return Taken{Err: err, Reason: c.Reason}
	}
	m, err := p.Publish(ctx, image)
	a.doubt.version, a.doubt.reason = image.Version, c.Reason
	begun := err == nil || m.Snapshot > 0 || p.Pending()
	return Taken{Manifest: m, Version: image.Version, Err: err, Reason: c.Reason, Begun: begun}
}

// Refuse implements mailbox.Actor.
func (a *Actor) Refuse(_ *mailbox.Self, msg any) { a.refuse(msg, a.closed("the actor failed")) }

// Panicked implements mailbox.Panicker: the command is answered, and the actor ends.
func (a *Actor) Panicked(_ *mailbox.Self, msg, _ any, _ []byte) (recovered bool) {
	a.refuse(msg, &messages.Error{Code: messages.CodeInternal, Key: a.cfg.Key.String(), Message: "the snapshot actor panicked"})
	return false
}

// Stopping implements mailbox.Actor.
func (a *Actor) Stopping(*mailbox.Self) {
	for _, lane := range []*lane{&a.snapshots, &a.upkeep} {
		if lane.cancel != nil {
			lane.cancel()
			a.refuse(lane.current, a.closed("the actor stopped; what was under way may still take effect"))
		}
		a.refuseQueue(lane, a.closed("the actor stopped"))
	}
}

func (a *Actor) closed(message string) error {
	return &messages.Error{Code: messages.CodeClosed, Key: a.cfg.Key.String(), Message: message}
}

func (a *Actor) refuseQueue(l *lane, why error) {
	for _, command := range l.queue {
		a.refuse(command, why)
	}
	l.queue = nil
}

// refuse answers a command that is not carried out. Other messages have no caller.
func (a *Actor) refuse(command any, why error) {
	switch c := command.(type) {
	case OpenTenant:
		a.report(Opened{Err: why})
	case Take:
		a.report(Taken{Err: why, Reason: c.Reason, Begun: true}) // if it was under way
	case RetainFrom:
		a.report(Retained{Err: why})
	case ForgetUpTo:
		a.report(Forgotten{Err: why})
	case SweepUpTo:
		a.report(Swept{Err: why})
	}
}
