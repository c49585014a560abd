package actors

import (
	"path/filepath"

	"github.com/leasehold/leasehold/actors/mailbox"
	"github.com/leasehold/leasehold/messages"
)

// How a tenant ends: everyone who waits is answered, whatever ends it.

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
	t.broken = true
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
	t.calm()
	t.answerAll(t.act.closed())
	t.leaveFiles()
	if t.granted.Epoch > 0 {
		t.emit(messages.Lifecycle{Kind: messages.LifecycleClosed})
	}
}

// leaveFiles decides what becomes of the local files: they are deleted only if nothing in them can be missed.
func (t *tenant) leaveFiles() {
	n, epoch := t.node, t.granted.Epoch
	f := localFolder{key: t.key, epoch: epoch, path: filepath.Dir(n.localFile(t.key, epoch))}
	var err error
	switch {
	case t.forgotten:
		err = n.dropLocal(t.key)
	case epoch == 0 || t.prepared.Load() != epoch: // there are none of this attempt
	case t.served && (t.broken || n.aborted.Load()):
		// As a killed process leaves them; the next open, or the sweep, looks at them.
		if t.unsaved() {
			n.log(t.key).Warn("the local files hold writes that no snapshot has, and are kept", "epoch", epoch, "path", f.path)
		}
	case t.served && t.unsaved() && !t.abandoned:
		n.setAside(f)
	default:
		err = n.dropEpoch(t.key, epoch)
	}
	if err != nil {
		n.log(t.key).Warn("local files could not be deleted; the sweep tries again", "epoch", epoch, "error", err)
	}
}

// unsaved reports whether the ledger holds commits that are in no snapshot, whether that counts or not: what has landed
// in a slot is in every later state.
func (t *tenant) unsaved() bool {
	return t.handle != nil && t.handle.Version() > max(t.saved, t.last.landed)
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

// endLost ends a tenant that has lost its lease. To a shutdown that is as good as a handoff, if nothing is unsaved.
func (t *tenant) endLost(why error) {
	if t.served && !t.unsaved() {
		if t.drain != nil && t.drain.reason == reasonShutdown {
			offer(t.drain.reply, nil)
		}
		if t.leaving != nil {
			t.leaving.nothingLost = true
		}
	}
	t.end(why)
}

// abort ends the actor as a kill of the process would: no flush, no release.
func (t *tenant) abort() {
	if t.fence != nil {
		t.fence.Close(messages.ReasonReleased)
	}
	t.end(errNodeDown())
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
		// Nobody renews it any more: it is as good as lost, and what is unsaved can still be published.
		t.fence.Close(messages.ReasonLeaseLost)
		if !t.lastBeforeTheEnd(failed) {
			t.endLost(failed)
		}
		return
	}
	if t.state == StateClosing {
		t.forgetFailed(failed)
		return
	}
	t.giveUp(failed)
}
