package actors

import (
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/actors/mailbox"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
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

	published uint64 // highest snapshot of this epoch that is in the store
	counted   uint64 // highest snapshot that was taken with an open fence
	proven    uint64 // highest one for which a renewal sent after its publication succeeded
	retained  uint64 // proven, when old copies were last deleted
	retaining bool
	saved     uint64 // the ledger's version that the newest counted snapshot holds
	lastSeq   int64
	takes     []take // asked for and not answered yet, in order
	last      lastSnapshot
	alarmed   bool // CodeUnsavedLimit was raised
	lostFiles bool // the ledger's files were deleted or replaced

	leaving   *leaving
	drain     *drain
	forgetOp  *forgetting
	releasing *release

	served    bool // this attempt has served: its files may hold what no snapshot has
	abandoned bool // by order: what no snapshot holds is lost
	forgotten bool // the floor is set
	broken    bool // a panic of the tenant's own: its state cannot be trusted
	// Written by the snapshot child's goroutine, during an open:
	prepared     atomic.Uint64 // the epoch whose local files are this actor's
	restoredWith atomic.Int64  // 1 more than the migrations that have run on the restored ledger; 0: nothing was restored
	asides       atomic.Bool   // files of earlier ownerships were set aside, and not looked at yet
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
	case lineageAgain:
		if m.gen == t.gen && t.state == StateOpening {
			t.lease.Send(leaseactor.MarkLineage{})
		}
	case looked:
		switch {
		case m.gen != t.gen || t.state != StateOpening:
		case m.err != nil && t.doomed == nil:
			if contradicts(m.err.Code) { // else it was not seen
				t.act.failed.Store(m.err)
			}
			t.end(m.err)
		default:
			t.lease.Send(leaseactor.Acquire{})
		}
	case recordRead:
		if m.gen == t.gen {
			t.recordRead(m)
		}
	case noted:
		if m.gen == t.gen {
			t.noted(m.err)
		}
	case drained:
		if t.draining(m.drain) {
			t.drained(m.err)
		}
	case undrained:
		if t.draining(m.drain) {
			t.undrained(m.err)
		}
	case flushAgain:
		if t.draining(m.drain) && m.drain.failed == nil {
			t.flush()
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
	case lastLook:
		t.lookForSuccessor()
	case successor:
		t.succeeded(m)
	}
}

func (t *tenant) setState(s State) {
	t.state = s
	if s != StateServing {
		t.act.stops()
		return
	}
	t.act.serving.Store(true)
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
