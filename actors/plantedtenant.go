package actors

import (
	"context"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/snapshotactor"
)

// The planted faults of a tenant. Each is a wrapper: around an effect, which it does in place of the actor, or around an event, which it
// changes before the machine sees it.

// plantedEffect reports whether it has done an effect.
func (t *tenant) plantedEffect(effect machine.Effect) bool {
	has := t.node.cfg.Planted.Has
	switch effect.(type) {
	case machine.Acquire:
		if !has(planted.ListBeforeGrant) {
			return false
		}
		lease := t.lease
		cfg := t.snapshotConfig("")
		t.self.Go(func(ctx context.Context) any {
			names, _ := snapshotactor.ListNames(ctx, cfg)
			t.act.stale.Store(&names)
			lease.Send(leaseactor.Acquire{})
			return nil
		})
		return true
	case machine.StopLedger:
		switch {
		case has(planted.ForgetDeleteFirst):
			t.perform(machine.DeleteCopies{})
			return true
		case has(planted.ForgetResume): // so that there is something to go back to
			t.self.Ref().Send(ofAttempt{t.attempt, machine.Gone{Child: machine.LedgerChild}})
			return true
		}
	}
	return false
}

// plantedEvent returns what the machine sees of an event; nil: nothing.
func (t *tenant) plantedEvent(event machine.Event) machine.Event {
	has := t.node.cfg.Planted.Has
	switch e := event.(type) {
	case machine.CopiesDeleted:
		if has(planted.ForgetDeleteFirst) && e.Err == nil && t.state.Phase == machine.StoppingLedger {
			return machine.Gone{Child: machine.LedgerChild}
		}
	case machine.FloorSet:
		if has(planted.ForgetResume) && e.Err != nil && t.state.Phase == machine.MarkingForgotten {
			t.servesAgain(e.Err)
			return nil
		}
	case machine.Released:
		// The lease child has opened its fence again.
		if has(planted.ServeAfterLostRelease) && e.Err != nil && e.Err.Code == messages.CodeUnavailable && t.state.Order.Kind == machine.Handoff && t.state.Order.Done {
			t.servesAgain(e.Err)
			t.self.After(t.node.untilRenewal(), renewTick{t.attempt})
			t.self.After(t.node.cfg.SnapshotEvery, snapshotTick{t.attempt})
			return nil
		}
	}
	return event
}

// servesAgain goes back from where there is no way back.
func (t *tenant) servesAgain(why *messages.Error) {
	t.state.Phase, t.state.Why = machine.Undraining, why
	t.state.Order.Begun, t.state.Order.Done = false, false
	t.drain = &drain{begun: t.node.cfg.Now(), over: make(chan struct{}), stop: func() {}}
	t.undrain()
}
