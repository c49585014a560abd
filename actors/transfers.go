package actors

import (
	"context"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
)

// Where an activation stands with its one transfer slot.
const (
	slotNone   int32 = iota
	slotHeld         // of Node.transfers
	slotUrgent       // of Node.urgent
	slotClosed       // the actor has ended: what still runs on its behalf gets none any more
)

// urgentShare is the part of Config.MaxTransfers, one in so many, that periodic snapshots do not get.
const urgentShare = 4

// takeSlot waits for a transfer slot of the node, for an image that is about to be held in memory. The
// slot of an earlier image of this activation, whose answer is still on its way, is returned first.
//
// A tenant that does not serve, because it is opened, handed off, or fenced, has somebody who waits for it: it does not
// stand in line behind the periodic snapshots of a thousand others.
func (a *activation) takeSlot(ctx context.Context) error {
	a.returnSlot()
	held := slotNone
	for held == slotNone {
		hurry := a.hurry.Load() // before serving is looked at, so that no change is missed
		urgent, changed := a.node.urgent, (<-chan struct{})(nil)
		if a.serving.Load() {
			urgent = nil
			if hurry != nil {
				changed = *hurry
			}
		}
		select {
		case a.node.transfers <- struct{}{}:
			held = slotHeld
		case urgent <- struct{}{}:
			held = slotUrgent
		case <-changed: // a periodic snapshot that a handoff waits for now
		case <-ctx.Done():
			return messages.AsError(ctx.Err())
		}
	}
	if !a.slot.CompareAndSwap(slotNone, held) {
		a.node.freeSlot(held)
		return a.closed()
	}
	return nil
}

// stops says that the activation does not serve any more: a snapshot that waits for its slot has become urgent.
func (a *activation) stops() {
	a.serving.Store(false)
	next := make(chan struct{})
	if before := a.hurry.Swap(&next); before != nil {
		close(*before)
	}
}

// freeSlot gives a slot back to where it came from.
func (n *Node) freeSlot(held int32) {
	switch held {
	case slotHeld:
		<-n.transfers
	case slotUrgent:
		<-n.urgent
	}
}

// returnSlot gives the slot of an image back that is no longer being transferred, if there is one.
func (a *activation) returnSlot() {
	for _, held := range []int32{slotHeld, slotUrgent} {
		if a.slot.CompareAndSwap(held, slotNone) {
			a.node.freeSlot(held)
		}
	}
}

// closeSlot is returnSlot for good.
func (a *activation) closeSlot() { a.node.freeSlot(a.slot.Swap(slotClosed)) }

// hasSlot reports whether the activation has a slot.
func (a *activation) hasSlot() bool {
	held := a.slot.Load()
	return held == slotHeld || held == slotUrgent
}

// slotted takes a slot before an image is fetched; the tenant returns it when the open is answered.
type slotted struct {
	snapshotactor.Store
	act  *activation
	life context.Context // the tenant's
}

func (s slotted) Get(ctx context.Context, name string, most int64) ([]byte, bool, error) {
	if o, err := messages.ParseObject(name); err == nil && o.Kind == messages.ObjectImage && !s.act.hasSlot() {
		// Waiting in line is no failure of the store: it is not bounded by the time of this call, but by
		// that of the open. If the call's time is up by then, the next attempt has the slot already.
		if err := s.act.takeSlot(s.life); err != nil {
			return nil, false, err
		}
	}
	return s.Store.Get(ctx, name, most)
}
