package actors

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/actors/mailbox"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
)

// Messages to a tenant from callers. Every reply channel is buffered; each message is answered once.
type (
	await       struct{ find }
	snapshotNow struct{ reply chan snapshotDone }
	handoff     struct {
		ctx    context.Context
		reason string
		next   string // the owner that is to take the tenant over; "": nobody in particular
		reply  chan error
	}
	abandon struct{ reply chan error }
	forget  struct {
		ctx   context.Context
		reply chan error
	}
	statusOf struct{ reply chan Status }
	abort    struct{}
)

type snapshotDone struct {
	manifest messages.Manifest
	err      error
}

// Messages of a tenant to itself. Those that belong to one attempt carry its generation, so that
// what an earlier attempt left behind is recognized.
type (
	renewTick    struct{ gen int }
	snapshotTick struct{ gen int }
	fromLease    struct {
		gen int
		msg any
	}
	fromSnapshots struct {
		gen int
		msg any
	}
	fromLedger struct {
		gen int
		msg any
	}
	acquireAgain struct{ gen int }
	openTimeout  struct{}
	prepared     struct {
		gen  int
		file string
		err  error
	}
	// What comes of a drain names it: it may come when that one is over, and the next one is under way.
	drained struct {
		drain *drain
		err   error
	}
	undrained struct {
		drain *drain
		err   error
	}
	drainTimeout struct {
		drain *drain
		err   error
	}
	filesGone struct{ err error }
	markAgain struct{}
)

// tenant is the actor of one open tenant: the state machine that orders what its children do. It
// never blocks; everything slow happens in a child or in Self.Go.
type tenant struct {
	node  *Node
	act   *activation
	key   messages.Key
	self  *mailbox.Self
	state State
	gen   int // counts the attempts to open

	lease  *mailbox.Ref
	fence  *leaseactor.Fence
	snaps  *mailbox.Ref
	ledger *mailbox.Ref
	handle *ledgeractor.Handle

	granted  messages.Lease
	restored snapshotactor.Restored
	openers  []find
	begun    time.Time      // of the open
	doomed   error          // set while an acquire is in flight that must not be used any more
	awaited  messages.Lease // of a node with this one's name, as it was last seen
	ahead    int            // attempts that met a lineage ahead of their epoch

	published uint64 // highest snapshot of this epoch that is in the store
	counted   uint64 // highest snapshot that was taken with an open fence
	proven    uint64 // highest one for which a renewal sent after its publication succeeded
	retained  uint64 // proven, when old copies were last deleted
	retaining bool
	saved     uint64 // the ledger's version that the newest counted snapshot holds
	lastSeq   int64
	takes     []take // asked for and not answered yet, in order
	last      lastSnapshot

	leaving   *leaving
	drain     *drain
	forgetOp  *forgetting
	releasing *release
	dropFiles bool // the local files are of no use to anybody when the actor ends
}

// take is a snapshot that was asked for; reply is nil for one of our own.
type take struct {
	reply chan snapshotDone
	begun time.Time
	last  bool
}

func newTenant(n *Node, act *activation) *tenant {
	return &tenant{node: n, act: act, key: act.key, state: StateOpening, begun: n.cfg.Now()}
}

func (t *tenant) Started(self *mailbox.Self) {
	t.self = self
	self.After(t.node.cfg.OpenTimeout, openTimeout{})
	t.acquire()
}

func (t *tenant) Receive(_ *mailbox.Self, msg any) {
	switch m := msg.(type) {
	case await:
		t.await(m)
	case statusOf:
		m.reply <- t.status()
	case snapshotNow:
		t.snapshotNow(m)
	case handoff:
		t.handOff(m)
	case abandon:
		t.abandon(m)
	case forget:
		t.forget(m)
	case abort:
		t.abort()
	case fromLease:
		if m.gen == t.gen {
			t.fromLease(m.msg)
		}
	case fromSnapshots:
		if m.gen == t.gen {
			t.fromSnapshots(m.msg)
		}
	case fromLedger:
		if m.gen == t.gen {
			t.fromLedger(m.msg)
		}
	case mailbox.Terminated:
		t.childGone(m)
	default:
		t.own(msg)
	}
}

// own handles what the tenant sent to itself.
func (t *tenant) own(msg any) {
	switch m := msg.(type) {
	case renewTick:
		if m.gen == t.gen {
			t.renewTick()
		}
	case snapshotTick:
		if m.gen == t.gen {
			t.snapshotTick()
		}
	case acquireAgain:
		if m.gen == t.gen {
			t.acquireAgain()
		}
	case openTimeout:
		if t.state == StateOpening {
			t.giveUp(&messages.Error{Code: messages.CodeUnavailable, Key: t.key.String(), Message: "the open took too long"})
		}
	case prepared:
		if m.gen == t.gen {
			t.prepared(m)
		}
	case drained:
		if t.draining(m.drain) {
			t.drained(m.err)
		}
	case undrained:
		if t.draining(m.drain) {
			t.undrained(m.err)
		}
	case drainTimeout:
		if t.draining(m.drain) {
			t.undrain(messages.AsError(m.err))
		}
	case markAgain:
		t.mark()
	case filesGone:
		t.filesGone(m.err)
	case lastAgain:
		t.last.pausing = false
		t.saveLast()
	case lastHurry:
		t.hurryLast()
	case lastTimeout:
		t.endWithoutLast()
	}
}

// Refuse answers callers after a panic of the tenant itself.
func (t *tenant) Refuse(_ *mailbox.Self, msg any) {
	var err error = &messages.Error{Code: messages.CodeInternal, Key: t.key.String(), Message: "the tenant actor failed"}
	switch m := msg.(type) {
	case await:
		offer(m.reply, found{err: err})
	case statusOf:
		offer(m.reply, t.status())
	case snapshotNow:
		offer(m.reply, snapshotDone{err: err})
	case handoff:
		offer(m.reply, err)
	case abandon:
		offer(m.reply, err)
	case forget:
		offer(m.reply, err)
	}
}

// offer answers a caller that may have its answer already: what panicked may have given it before, and
// nobody may be there any more to take a second one.
func offer[T any](reply chan T, answer T) {
	select {
	case reply <- answer:
	default:
	}
}

// Panicked ends the tenant: its state cannot be trusted. The lease runs out by itself.
func (t *tenant) Panicked(self *mailbox.Self, msg any, _ any, _ []byte) bool {
	t.emit(messages.Lifecycle{Kind: messages.LifecyclePanic, Code: messages.CodeInternal})
	if t.fence != nil {
		t.fence.Close(messages.ReasonReleased)
	}
	if msg != nil {
		t.Refuse(self, msg)
	}
	t.end(&messages.Error{Code: messages.CodeInternal, Key: t.key.String(), Message: "the tenant actor failed"})
	return false
}

func (t *tenant) Stopping(*mailbox.Self) {
	t.act.closeSlot()
	t.answerAll(t.act.closed())
	if t.dropFiles {
		t.node.dropLocal(t.key)
	}
	if t.granted.Epoch > 0 {
		t.emit(messages.Lifecycle{Kind: messages.LifecycleClosed})
	}
}

// answerAll answers everyone who still waits for something. A nil err is that of an end which was
// asked for: it is a success for those who asked, and for nobody else.
func (t *tenant) answerAll(err error) {
	others := err
	if others == nil {
		others = t.drainingError()
	}
	for _, o := range t.openers {
		offer(o.reply, found{err: others})
	}
	for _, k := range t.takes {
		if k.reply != nil {
			offer(k.reply, snapshotDone{err: others})
		}
	}
	if t.drain != nil {
		t.drain.stop()
		close(t.drain.over)
		if t.drain.reply != nil {
			offer(t.drain.reply, err)
		}
	}
	if t.forgetOp != nil && t.forgetOp.reply != nil {
		offer(t.forgetOp.reply, err)
	}
	if t.releasing != nil && t.releasing.reply != nil {
		offer(t.releasing.reply, err)
	}
	if t.leaving != nil && t.state == StateClosing { // an acquire that is still in flight is waited for
		t.leaving.answer(err)
		t.leaving = nil
	}
	t.openers, t.takes, t.drain, t.forgetOp, t.releasing = nil, nil, nil, nil, nil
}

// end closes the actor; err answers everyone who still waits. The lease must have been dealt with.
func (t *tenant) end(err error) {
	t.setState(StateClosing)
	t.answerAll(err)
	t.self.Stop()
}

// abort ends the actor as a kill of the process would: no flush, no release.
func (t *tenant) abort() {
	if t.fence != nil {
		t.fence.Close(messages.ReasonReleased)
	}
	t.end(errNodeDown())
}

func (t *tenant) setState(s State) {
	t.state = s
	if s != StateServing {
		t.act.stops()
		return
	}
	t.act.serving.Store(true)
}

// childGone handles the end of a child that nobody asked to end: a panic in our own code.
func (t *tenant) childGone(m mailbox.Terminated) {
	switch {
	case t.forgetOp != nil && t.drain == nil && m.Ref == t.ledger:
		t.ledger = nil
		t.mark()
		return
	case m.Ref != t.lease && m.Ref != t.snaps && m.Ref != t.ledger:
		return
	case t.state == StateClosing && m.Ref != t.lease && (m.Ref != t.snaps || t.forgetOp == nil):
		t.endWithoutLast() // nothing else waits for it any more
		return
	}
	t.emit(messages.Lifecycle{Kind: messages.LifecyclePanic, Code: messages.CodeInternal})
	failed := &messages.Error{Code: messages.CodeInternal, Key: t.key.String(), Epoch: t.granted.Epoch, Message: "an actor of the tenant failed"}
	if m.Ref == t.lease {
		t.fence.Close(messages.ReasonReleased)
		t.end(failed)
		return
	}
	if t.state == StateClosing {
		t.forgetFailed(failed)
		return
	}
	t.giveUp(failed)
}

func (t *tenant) await(m await) {
	switch {
	case t.state == StateServing:
		m.reply <- found{act: t.act}
	case t.state == StateOpening && t.doomed == nil:
		t.openers = append(t.openers, m.find)
	case t.state == StateDraining && !t.act.passing.Load():
		m.reply <- found{err: t.drainingError()}
	case t.state == StateDraining:
		// When that is over the tenant is closing or serves again: the caller asks once more.
		m.reply <- found{wait: t.drain.over}
	default:
		m.reply <- found{wait: t.self.Ref().Done()}
	}
}

func (t *tenant) drainingError() error {
	return t.act.naming(&messages.Error{Code: messages.CodeDraining, Key: t.key.String(), Epoch: t.granted.Epoch, RetryAfter: 100 * time.Millisecond,
		Message: "the tenant is being handed off"})
}

func (t *tenant) status() Status {
	s := Status{Key: t.key, State: t.state, Owner: t.node.owner, Epoch: t.granted.Epoch, From: t.restored.From, Snapshot: t.counted, LastSeq: t.lastSeq}
	if t.fence != nil {
		if err := t.fence.Check(); err != nil {
			s.Fenced = messages.AsError(err).Reason
		}
		s.Window = max(0, t.fence.Deadline().Sub(t.node.cfg.Now()))
	}
	if t.handle != nil {
		s.Unsaved = t.handle.Version() != t.saved
	}
	return s
}

// emit publishes a lifecycle event.
func (t *tenant) emit(e messages.Lifecycle) {
	e.Key, e.Owner, e.Epoch = t.key, t.node.owner, t.granted.Epoch
	t.node.emit(e)
}
