package actors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
	"github.com/leasehold/leasehold/snapshotactor"
)

// tenant is the actor of one open tenant. What it does next is decided by package machine; the actor turns messages into
// events of the machine (Receive, reports.go), and does what the machine wants (perform.go). It never blocks: everything
// slow happens in a child or in Self.Go.
type tenant struct {
	node  *Node
	act   *activation
	key   messages.Key
	self  *mailbox.Self
	state machine.State
	asked map[machine.Caller]asker // who is to be answered
	names machine.Caller           // the last one

	attempt int // to open: what children of an earlier one report is dropped
	lease   *mailbox.Ref
	fence   *leaseactor.Fence
	snaps   *mailbox.Ref
	ledger  *mailbox.Ref
	handle  *ledgeractor.Handle
	drain   *drain // the newest

	granted  messages.Lease
	restored snapshotactor.Restored
	begun    time.Time      // of the open
	awaited  messages.Lease // of a node with this one's name, as it was last seen

	manifest  messages.Manifest // of the newest snapshot that was answered
	counted   uint64            // the number of the newest one that counts
	takeBegun time.Time         // of the snapshot under way
	usual     time.Duration     // how long the newest snapshot took to land
	patience  time.Duration     // how long the next try of the last snapshot may take
	lastSeq   int64
	flushed   *bool // by the release that was sent
	forgotten int   // copies that a forget has deleted
	retention retention

	alarmed   bool // CodeUnsavedLimit was raised
	lostFiles bool // the ledger's files were deleted or replaced
	broken    bool // a panic of the tenant's own: its state cannot be trusted
	// Written by the snapshot child's goroutine:
	prepared     atomic.Uint64 // the epoch whose local files are this actor's
	restoredWith atomic.Int64  // 1 more than the migrations that have run on the restored ledger; 0: nothing was restored
	asides       atomic.Bool   // files of earlier ownerships were set aside, and not looked at yet
	cutting      atomic.Pointer[context.CancelFunc]
}

func newTenant(n *Node, act *activation) *tenant {
	return &tenant{node: n, act: act, key: act.key, state: machine.State{Key: act.key}, asked: make(map[machine.Caller]asker), begun: n.cfg.Now()}
}

// Messages of a tenant to itself. What belongs to one attempt to open, or to one drain, names it: it may come when that one is
// over, and the next one is under way.
type (
	abort    struct{}
	statusOf struct{ reply chan Status }
	elapsed  struct{ timer machine.Timer }
	ofChild  struct {
		attempt int
		report  any
	}
	ofAttempt struct {
		attempt int
		event   machine.Event
	}
	ofDrain struct {
		drain *drain
		event machine.Event
	}
	renewTick    struct{ attempt int }
	snapshotTick struct{ attempt int }
)

// drain is a handoff or forget that can still go back to serving.
type drain struct {
	begun time.Time
	over  chan struct{} // closed when it is over: the tenant serves again, or is closing
	stop  context.CancelFunc
}

func (t *tenant) Started(self *mailbox.Self) {
	t.self = self
	self.After(t.node.cfg.OpenTimeout, elapsed{machine.OpenTimeout})
	started := machine.Started{}
	if before := t.act.before; before != nil && contradicts(before.Code) {
		started.Before = before
	}
	t.step(started)
}

func (t *tenant) Receive(_ *mailbox.Self, msg any) {
	switch m := msg.(type) {
	case await, *order:
		t.take(m)
	case revoke:
		if _, waits := t.asked[m.order.name]; waits {
			t.step(machine.Revoke{By: m.order.name, Err: messages.AsError(m.order.ctx.Err())})
		}
	case statusOf:
		m.reply <- t.status()
	case abort:
		t.step(machine.Abort{Err: machine.NodeDown()})
	case elapsed:
		t.step(machine.Elapsed{Timer: m.timer})
	case ofChild:
		if m.attempt == t.attempt {
			t.report(m.report)
		}
	case ofAttempt:
		if m.attempt == t.attempt {
			t.step(m.event)
		}
	case ofDrain:
		if m.drain == t.drain {
			t.step(m.event)
		}
	case renewTick:
		if m.attempt == t.attempt {
			t.renewTick()
		}
	case snapshotTick:
		if m.attempt == t.attempt {
			t.snapshotTick()
		}
	case mailbox.Terminated:
		t.childGone(m.Ref)
	}
}

// take lets the machine hear of a question or an order.
func (t *tenant) take(msg any) {
	t.names++
	switch m := msg.(type) {
	case await:
		t.asked[t.names] = m.find
		t.step(machine.Await{By: t.names})
	case *order:
		m.name = t.names
		t.asked[m.name] = m
		ref := t.self.Ref()
		m.unwatch = context.AfterFunc(m.ctx, func() { ref.Send(revoke{m}) })
		t.step(machine.Give{By: m.name, Kind: m.kind, Reason: m.reason})
	}
}

// order gives an order of the node's own: nobody waits for its answer.
func (t *tenant) order(reason machine.Reason) {
	ctx, cancel := context.WithTimeout(context.Background(), t.node.cfg.RequestTimeout)
	o := newOrder(ctx, machine.Handoff, reason)
	o.cancel = cancel
	t.take(o)
}

// step lets the machine handle an event, and does what it wants.
func (t *tenant) step(e machine.Event) {
	if t.node.cfg.Planted != 0 {
		if e = t.plantedEvent(e); e == nil {
			return
		}
	}
	before := t.state.Phase
	state, effects := machine.Step(t.state, t.facts(), e)
	t.state = state
	t.moved(before)
	for _, effect := range effects {
		t.perform(effect)
	}
}

func (t *tenant) facts() machine.Facts {
	f := machine.Facts{}
	if t.fence != nil {
		f.Fenced = messages.AsError(t.fence.Check())
	}
	if t.handle != nil {
		f.Version = t.handle.Version() // after the fence
	}
	for _, c := range t.state.Openers {
		o, waits := t.asked[c].(find)
		f.Awaited = f.Awaited || waits && o.ctx.Err() == nil
	}
	return f
}

// moved tells callers of a new phase, before anybody is answered.
func (t *tenant) moved(before machine.Phase) {
	now := t.state.Phase
	if now == before {
		return
	}
	switch {
	case now == machine.Serving:
		t.act.used.Store(t.node.sinceStart()) // an open, or a handoff that failed, may take longer than IdleAfter
		t.act.next.Store(nil)
		t.act.serving.Store(true)
	case before == machine.Serving:
		t.act.stops()
	}
	if o, ok := t.asked[t.state.Order.By].(*order); ok && now == machine.Draining {
		// passing stays as it is when the tenant serves again: a caller may have been turned away just before.
		t.act.passing.Store(o.reason.Passing())
		t.act.next.Store(&o.next)
	}
	if before.Draining() && !now.Draining() {
		t.endDrain()
	}
	if now == machine.SavingLast {
		// A try that hangs is made again, but one that is merely as slow as the last one is left alone.
		t.patience = max(t.node.cfg.StoreTimeout, 2*t.usual)
	}
}

func (t *tenant) endDrain() {
	if d := t.drain; d != nil && d.over != nil {
		d.stop()
		close(d.over)
		d.over = nil
	}
}

func (t *tenant) public() State {
	switch p := t.state.Phase; {
	case p.Opening() || p == machine.Withdrawing:
		return StateOpening
	case p == machine.Serving:
		return StateServing
	case p.Draining():
		return StateDraining
	}
	return StateClosing
}

func (t *tenant) status() Status {
	s := Status{Key: t.key, State: t.public(), Owner: t.node.owner, Epoch: t.granted.Epoch, From: t.restored.From, Snapshot: t.counted, LastSeq: t.lastSeq}
	if t.fence != nil {
		if err := t.fence.Check(); err != nil {
			s.Fenced = messages.AsError(err).Reason
		}
		s.Window = max(0, t.fence.Deadline().Sub(t.node.cfg.Now()))
	}
	if t.handle != nil {
		s.Unsaved = t.handle.Version() != t.state.Saved
		s.UnsavedFor, s.UnsavedBytes = t.handle.Unsaved()
		s.UnsavedLimit = t.handle.UnsavedLimit() != nil
	}
	return s
}

// emit publishes a lifecycle event.
func (t *tenant) emit(e messages.Lifecycle) {
	e.Key, e.Owner, e.Epoch = t.key, t.node.owner, t.granted.Epoch
	t.node.emit(e)
}

func failure(kind messages.LifecycleKind, err error) messages.Lifecycle {
	l := messages.Lifecycle{Kind: kind}
	if e := messages.AsError(err); e != nil {
		l.Code, l.Reason, l.Object = e.Code, e.Reason, e.Object
	}
	return l
}
