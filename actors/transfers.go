package actors

import (
	"context"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
)

// Where an activation stands with its one transfer slot.
const (
	slotNone int32 = iota
	slotHeld
	slotClosed // the actor has ended: what still runs on its behalf gets none any more
)

// takeSlot waits for a transfer slot of the node, for an image that is about to be held in memory. The
// slot of an earlier image of this activation, whose answer is still on its way, is returned first.
func (a *activation) takeSlot(ctx context.Context) error {
	a.returnSlot()
	select {
	case a.node.transfers <- struct{}{}:
	case <-ctx.Done():
		return messages.AsError(ctx.Err())
	}
	if !a.slot.CompareAndSwap(slotNone, slotHeld) {
		<-a.node.transfers
		return a.closed()
	}
	return nil
}

// returnSlot gives the slot of an image back that is no longer being transferred, if there is one.
func (a *activation) returnSlot() {
	if a.slot.CompareAndSwap(slotHeld, slotNone) {
		<-a.node.transfers
	}
}

// closeSlot is returnSlot for good.
func (a *activation) closeSlot() {
	if a.slot.Swap(slotClosed) == slotHeld {
		<-a.node.transfers
	}
}

// slotted takes a slot before an image is fetched; the tenant returns it when the open is answered.
type slotted struct {
	snapshotactor.Store
	act  *activation
	life context.Context // the tenant's
}

func (s slotted) Get(ctx context.Context, name string) ([]byte, bool, error) {
	if o, err := messages.ParseObject(name); err == nil && o.Kind == messages.ObjectImage && s.act.slot.Load() != slotHeld {
		// Waiting in line is no failure of the store: it is not bounded by the time of this call, but by
		// that of the open. If the call's time is up by then, the next attempt has the slot already.
		if err := s.act.takeSlot(s.life); err != nil {
			return nil, false, err
		}
	}
	return s.Store.Get(ctx, name)
}
