package actors

import (
	"context"
	"encoding/json"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// AppendAt is AppendAll for callers that pass the fencing token on: it also returns the epoch that
// acknowledged the events. It is not what a later look at the tenant would tell: the tenant may have
// been handed off and opened again in between.
func (t *Tenant) AppendAt(ctx context.Context, events []messages.Event) (out []messages.Appended, epoch uint64, err error) {
	err = t.use(ctx, "append", true, func(ctx context.Context, l *ledgeractor.Handle) error {
		out, err = l.Append(ctx, events)
		epoch = l.Epoch()
		return err
	})
	return out, epoch, err
}

// CallAt is Call that also returns the epoch that acknowledged the command.
func (t *Tenant) CallAt(ctx context.Context, command string, in json.RawMessage) (out json.RawMessage, epoch uint64, err error) {
	out, epoch, _, err = t.CallOnce(ctx, command, "", in)
	return out, epoch, err
}

// CallOnce is CallAt for callers who may have to ask again, after CodeUnknownOutcome or a crash: a
// command that was acknowledged under an idempotency key does not run a second time. The output of the
// first success comes back, with duplicate, and with the epoch that acknowledges it now. A call that
// failed may be repeated with its key. CodeIdempotencyConflict: the key was used with another command or
// another input; CodeInvalidArgument and CodeTooLarge: it is malformed (messages.ValidateIdemKey). An empty
// key makes it CallAt. After a crash that lost the first call (H2) the command runs again: what it did
// before is lost too.
func (t *Tenant) CallOnce(ctx context.Context, command, idemKey string, in json.RawMessage) (out json.RawMessage, epoch uint64, duplicate bool, err error) {
	err = t.serve(ctx, "call", t.node.knows(command), func(ctx context.Context, act *activation) error {
		act.callOf(command)
		l := act.ledger.Load()
		ctx, done := t.node.untilItStops(ctx)
		defer done()
		out, duplicate, err = l.CallOnce(ctx, command, idemKey, in)
		epoch = l.Epoch()
		return err
	})
	return out, epoch, duplicate, err
}

// Peek returns the status of a tenant that is open on this node, and false for one that is not. A
// tenant that is closing is not open: its lease is on its way back, or was given back already (an order
// to end a tenant is answered then, before the actor is gone), or was lost, and the lease store tells
// more about it. Tenants lists it. Peek opens nothing, and touches no store. The error is that of ctx.
func (n *Node) Peek(ctx context.Context, key messages.Key) (Status, bool, error) {
	act, ok := n.active.Load(key)
	if !ok {
		return Status{}, false, nil
	}
	status, err := act.(*activation).status(ctx)
	switch messages.CodeOf(err) {
	case "":
		if status.State == StateClosing {
			return Status{}, false, nil
		}
		return status, true, nil
	case messages.CodeClosed:
		return Status{}, false, nil // it closed between the look and the question
	}
	return Status{}, false, err
}
