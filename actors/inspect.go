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
	err = t.use(ctx, "append", func(ctx context.Context, l *ledgeractor.Handle) error {
		out, err = l.Append(ctx, events)
		epoch = l.Epoch()
		return err
	})
	return out, epoch, err
}

// CallAt is Call that also returns the epoch that acknowledged the command.
func (t *Tenant) CallAt(ctx context.Context, command string, in json.RawMessage) (out json.RawMessage, epoch uint64, err error) {
	err = t.use(ctx, "call", func(ctx context.Context, l *ledgeractor.Handle) error {
		ctx, done := t.node.untilItStops(ctx)
		defer done()
		out, err = l.Call(ctx, command, in)
		epoch = l.Epoch()
		return err
	})
	return out, epoch, err
}

// Peek returns the status of a tenant that has an actor on this node, and false for one that has
// none. It opens nothing, and touches no store. The error is that of ctx.
func (n *Node) Peek(ctx context.Context, key messages.Key) (Status, bool, error) {
	act, ok := n.active.Load(key)
	if !ok {
		return Status{}, false, nil
	}
	status, err := act.(*activation).status(ctx)
	switch messages.CodeOf(err) {
	case "":
		return status, true, nil
	case messages.CodeClosed:
		return Status{}, false, nil // it closed between the look and the question
	}
	return Status{}, false, err
}
