package actors

import (
	"context"
	"sync/atomic"

	"github.com/leasehold/leasehold/messages"
)

// order is what a caller asks of a tenant's actor: a handoff, an abandon, a forget, a snapshot. It has a point of no
// return, which tenant and caller agree on without waiting for each other: the tenant begins the order just before it
// does what cannot be taken back, the caller revokes it when its time is over, and only one of the two succeeds. So
// whoever revoked it is told the truth, that nothing was done; after the beginning there is only the outcome, or
// unknown_outcome (Q1). Safe for concurrent use; the nil order is one of the node's own, which nobody revokes.
type order struct{ fate atomic.Int32 }

const (
	orderWaits int32 = iota // nothing was done
	orderBegun
	orderRevoked
)

// begin reports whether the order may be carried out. From then on it is.
func (o *order) begin() bool {
	return o == nil || o.fate.CompareAndSwap(orderWaits, orderBegun) || o.fate.Load() == orderBegun
}

// undone says that what was begun turned out to have had no effect, and never will.
func (o *order) undone() {
	if o != nil {
		o.fate.CompareAndSwap(orderBegun, orderWaits)
	}
}

// refusal returns what the caller is told when the order ended with err, of whatever kind.
func (o *order) refusal(a *activation, err error) error {
	if err == nil || o.fate.Load() != orderBegun {
		return err
	}
	unknown := messages.Unknown(a.key, a.epoch.Load(), err)
	unknown.Message = "the order was begun and interrupted: it may or may not have been carried out, or still be"
	return unknown
}

// give gives an order to a tenant and waits for its outcome; msg carries the order and the buffered reply channel.
func give[T any](ctx context.Context, a *activation, o *order, msg any, reply chan T) (out T, err error) {
	out, err = ask(ctx, a, msg, reply)
	if err == nil || o.fate.CompareAndSwap(orderWaits, orderRevoked) {
		return out, err
	}
	select {
	case out = <-reply: // in the same moment
		return out, nil
	default:
		return out, o.refusal(a, err)
	}
}

func giveAndWait(ctx context.Context, a *activation, o *order, msg any, reply chan error) error {
	err, failed := give(ctx, a, o, msg, reply)
	if failed != nil {
		return failed
	}
	return o.refusal(a, err)
}
