package actors

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
)

// perform does what the machine wants. What comes of it is reported as an event: see reports.go.
func (t *tenant) perform(effect machine.Effect) {
	if t.node.cfg.Planted != 0 && t.plantedEffect(effect) {
		return
	}
	switch e := effect.(type) {
	case machine.Attempt:
		t.begin()
	case machine.Look:
		t.look(t.act.before)
	case machine.Acquire:
		t.lease.Send(leaseactor.Acquire{})
	case machine.Restore:
		t.restore()
	case machine.ReadRecord:
		t.readRecordAgain(e.Contrary)
	case machine.NoteSaved:
		epoch, hash := t.granted.Epoch, t.restoredHash()
		t.inAttempt(func(context.Context) machine.Event {
			return machine.SavedNoted{Err: messages.AsError(t.node.noteSaved(t.key, epoch, hash))}
		})
	case machine.MarkLineage:
		t.lease.Send(leaseactor.MarkLineage{})
	case machine.OpenLedger:
		t.openLedger()
	case machine.OpenFailed:
		t.openFailed(e.Err)
	case machine.Raise:
		t.node.raise(e.Err)
	case machine.Drain:
		t.beginDrain()
	case machine.Undrain:
		t.undrain()
	case machine.TakeSnapshot:
		t.takeBegun = t.node.cfg.Now()
		t.snaps.Send(snapshotactor.Take{Reason: e.Reason, Last: e.Last, Version: e.Version})
	case machine.CancelCut:
		if cancel := t.cutting.Load(); cancel != nil {
			(*cancel)()
		}
	case machine.Hurry:
		t.snaps.Send(snapshotactor.Hurry{})
	case machine.StopSnapshots:
		t.snaps.Stop()
	case machine.AwaitLast:
		t.node.raise(t.lastAwaited(e.Err))
	case machine.LastOver:
		t.node.clearAlarm(messages.CodeUnavailable, t.key.String())
	case machine.SeekSuccessor:
		epoch := t.granted.Epoch
		t.inAttempt(func(ctx context.Context) machine.Event {
			lease, known, err := t.node.Lease(ctx, t.key)
			return machine.SuccessorSought{Found: err == nil && known && lease.Epoch > epoch}
		})
	case machine.CloseFence:
		t.fence.Close(e.Reason)
	case machine.StopLedger:
		t.ledger.Stop()
	case machine.MarkForgotten:
		t.lease.Send(leaseactor.Forget{})
	case machine.DeleteCopies:
		t.snaps.Send(snapshotactor.ForgetUpTo{Floor: t.granted.Epoch})
	case machine.DeleteFiles:
		t.inAttempt(func(context.Context) machine.Event {
			return machine.FilesDeleted{Err: messages.AsError(t.node.dropLocal(t.key))}
		})
	case machine.Release:
		t.release(e)
	case machine.After:
		t.self.After(t.pause(e), elapsed{e.Timer})
	case machine.Tell:
		t.tell(e)
	case machine.Answer:
		if who := t.asked[e.To]; who != nil {
			delete(t.asked, e.To)
			who.answer(t, e)
		}
	case machine.Stop:
		t.self.Stop()
	}
}

// inAttempt does what may block beside the actor; its event is dropped when the attempt is over by then.
func (t *tenant) inAttempt(work func(context.Context) machine.Event) {
	attempt := t.attempt
	t.self.Go(func(ctx context.Context) any { return ofAttempt{attempt, work(ctx)} })
}

// pause returns how long an After takes.
func (t *tenant) pause(e machine.After) time.Duration {
	cfg := t.node.cfg
	growing := 20 * time.Millisecond << min(e.Tries, 10)
	switch e.Timer {
	case machine.AcquireAgain:
		return min(max(e.Err.RetryAfter, 10*time.Millisecond), cfg.RenewEvery)
	case machine.LastAgain:
		// When both stores are back, a successor may be as quick to acquire as this is to publish.
		return min(growing, cfg.TTL/20)
	case machine.LastHurry: // the next try may take twice as long
		defer func() { t.patience *= 2 }()
		return t.patience
	case machine.FlushAgain, machine.MarkAgain:
		if e.Tries > 0 {
			return min(cfg.RenewEvery, growing)
		}
	}
	return cfg.RenewEvery
}

func (t *tenant) beginDrain() {
	t.endDrain() // of a handoff that failed, when another one has waited for its end
	ctx := context.Background()
	if o, ok := t.asked[t.state.Order.By].(*order); ok {
		ctx = o.ctx
	}
	d, handle := &drain{begun: t.node.cfg.Now(), over: make(chan struct{})}, t.handle
	ctx, d.stop = context.WithCancel(ctx)
	t.drain = d
	t.self.Go(func(own context.Context) any {
		defer context.AfterFunc(own, d.stop)()
		return ofDrain{d, machine.Drained{Err: messages.AsError(insist(ctx, handle.Drain))}}
	})
}

func (t *tenant) undrain() {
	d, handle := t.drain, t.handle
	d.stop()
	t.self.Go(func(ctx context.Context) any {
		return ofDrain{d, machine.Undrained{Err: messages.AsError(insist(ctx, handle.Undrain))}}
	})
}

// insist repeats a call that the ledger bounds by its own timeout: a transaction that it has begun may
// take longer, as long as its caller allows.
func insist(ctx context.Context, call func(context.Context) error) error {
	for {
		if err := call(ctx); ctx.Err() != nil || !errors.Is(err, messages.ErrDeadlineExceeded) {
			return err
		}
	}
}

// release hands the lease back; the holder has stopped, or stops with it.
func (t *tenant) release(e machine.Release) {
	t.fence.Close(messages.ReasonReleased)
	t.flushed = nil
	if e.ByOrder {
		// Only now: a write that was acknowledged was committed before the fence closed.
		flushed := t.state.Forgotten || t.handle.Version() <= e.Saved
		t.flushed = &flushed
	}
	t.lease.Send(leaseactor.Release{})
}

// lastAwaited is the alarm of a tenant whose lease is lost, and whose last snapshot cannot be published.
func (t *tenant) lastAwaited(why error) *messages.Error {
	return &messages.Error{Code: messages.CodeUnavailable, Key: t.key.String(), Epoch: t.granted.Epoch, Err: why,
		Message: "the lease is lost, and the last snapshot cannot be published: the tenant is not opened again on this node before"}
}

func (t *tenant) tell(e machine.Tell) {
	l := failure(e.Kind, e.Err)
	switch e.Kind {
	case messages.LifecycleLost:
		l.Reason = messages.ReasonLeaseLost
	case messages.LifecycleForgotten:
		l.Count = t.forgotten
	}
	t.emit(l)
}
