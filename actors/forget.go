package actors

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/snapshotactor"
)

// forgetTries bounds how often an unanswered step of a forget is tried before the caller is told.
// The floor protects the rest: the sweep finishes what was begun.
const forgetTries = 5

// forgetting is a forget under way. Its steps: drain, publish what is unsaved, stop serving, set the floor, delete the
// copies epoch by epoch, delete the local files, release. From the third on there is no way back.
type forgetting struct {
	order  *order
	reply  chan error
	marked bool
	tries  int
	count  int
}

func (t *tenant) forget(m forget) {
	switch t.state {
	case StateServing:
	case StateDraining, StateOpening:
		m.reply <- t.drainingError()
		return
	default:
		m.reply <- t.act.closed()
		return
	}
	t.forgetOp = &forgetting{order: m.order}
	t.startDrain(m.ctx, "forget", m.order, m.reply)
}

// forgetDrained begins the part that has no way back. The fence was open a moment ago ([D11]); the lease child looks again.
func (t *tenant) forgetDrained() {
	d := t.drain
	if !d.order.begin() {
		t.undrain(errRevoked(t.key))
		return
	}
	d.stop()
	t.drain = nil
	t.forgetOp.reply = d.reply
	t.setState(StateClosing)
	close(d.over)
	switch {
	case t.node.cfg.Planted.Has(planted.ForgetDeleteFirst):
		t.snaps.Send(snapshotactor.ForgetUpTo{Floor: t.granted.Epoch})
	case t.node.cfg.Planted.Has(planted.ForgetResume):
		t.mark() // with the ledger still open, so that there is something to go back to
	default:
		t.ledger.Stop() // goes on in childGone
	}
}

// mark sets the floor.
func (t *tenant) mark() {
	if t.forgetOp != nil {
		t.lease.Send(leaseactor.Forget{})
	}
}

// marked handles the answer. Without one the lease child has read the floor back in vain, or could
// not read it; asking again is safe as long as the lease lives.
func (t *tenant) marked(err error) {
	op := t.forgetOp
	switch {
	case op == nil:
	case err == nil:
		op.marked, op.tries = true, 0
		t.forgotten = true
		t.granted.Floor = t.granted.Epoch
		if t.node.cfg.Planted.Has(planted.ForgetDeleteFirst) {
			t.removeFiles()
			return
		}
		t.snaps.Send(snapshotactor.ForgetUpTo{Floor: t.granted.Epoch})
	case t.node.cfg.Planted.Has(planted.ForgetResume):
		t.setState(StateDraining)
		t.drain = &drain{reply: op.reply, over: make(chan struct{}), stop: func() {}}
		t.undrain(err)
	case errors.Is(err, messages.ErrUnavailable) && op.tries < forgetTries:
		op.tries++
		t.self.After(t.pause(op.tries), markAgain{})
	default:
		if nothingMarked(err, op.tries) {
			op.order.undone()
		}
		t.forgetFailed(err)
	}
}

// nothingMarked reports whether the floor was not set, and never will be by this forget. CodeLost says so in any case, the
// others only if no request was sent before that one.
func nothingMarked(err error, tries int) bool {
	switch messages.CodeOf(err) {
	case messages.CodeLost:
		return true
	case messages.CodeFenced, messages.CodeHeld, messages.CodeOutOfRange, messages.CodeInvalidID, messages.CodeInvalidArgument:
		return tries == 0
	}
	return false
}

func (t *tenant) pause(tries int) time.Duration {
	return min(t.node.cfg.RenewEvery, 20*time.Millisecond<<tries)
}

// forgetFailed tells the caller and hands the lease back; the tenant does not serve again.
func (t *tenant) forgetFailed(err error) {
	op := t.forgetOp
	t.forgetOp = nil
	t.release(&release{reply: op.reply, err: err, then: func() { t.end(t.act.closed()) }})
}

// copiesGone handles the answer to the deletion of the copies.
func (t *tenant) copiesGone(m snapshotactor.Forgotten) {
	op := t.forgetOp
	if op == nil {
		return
	}
	op.count += m.Count
	switch {
	case m.Err == nil && t.node.cfg.Planted.Has(planted.ForgetDeleteFirst) && !op.marked:
		t.mark()
	case m.Err == nil:
		t.removeFiles()
	case op.tries < forgetTries:
		op.tries++
		t.snaps.Send(snapshotactor.ForgetUpTo{Floor: t.granted.Epoch})
	default:
		t.emit(messages.Lifecycle{Kind: messages.LifecycleForgotten, Count: op.count, Code: messages.CodeOf(m.Err)})
		t.forgetFailed(m.Err)
	}
}

func (t *tenant) removeFiles() {
	t.self.Go(func(context.Context) any { return filesGone{t.node.dropLocal(t.key)} })
}

func (t *tenant) filesGone(err error) {
	op := t.forgetOp
	if op == nil {
		return
	}
	t.emit(messages.Lifecycle{Kind: messages.LifecycleForgotten, Count: op.count, Code: messages.CodeOf(err)})
	if err != nil {
		t.forgetFailed(err)
		return
	}
	t.forgetOp = nil
	flushed := true // nothing is left that could be lost
	t.release(&release{reply: op.reply, flushed: &flushed, then: func() { t.end(nil) }})
}
