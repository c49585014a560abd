package actors

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/messages"
)

// asker is whoever waits for an answer of a tenant's actor: a find that looks for a tenant that serves, or an order.
type asker interface {
	// answer is called once. It never blocks.
	answer(t *tenant, a machine.Answer)
}

// await asks a tenant's actor for itself, as soon as it serves.
type await struct{ find }

func (f find) answer(t *tenant, a machine.Answer) {
	switch {
	case a.Wait == machine.UntilDrained && t.drain.over != nil:
		f.reply <- found{wait: t.drain.over}
	case a.Wait != machine.NoWait:
		f.reply <- found{wait: t.self.Ref().Done()}
	case a.Err != nil:
		f.reply <- found{err: t.act.naming(a.Err)}
	default:
		f.reply <- found{act: t.act}
	}
}

// order is a handoff, an abandon, a forget or a snapshot, on its way to the tenant's actor. It has a point of no return: when ctx ends
// before that, nothing was done, and that is what its caller is told; after that there is only the outcome, or unknown_outcome (contract Q1).
type order struct {
	ctx     context.Context
	kind    machine.OrderKind
	reason  machine.Reason
	next    string // the owner that is to take the tenant over; "": nobody in particular
	reply   chan outcome
	cancel  context.CancelFunc // of ctx, if it is the node's own; else nil
	name    machine.Caller     // these two belong to the tenant's actor
	unwatch func() bool
}

// revoke tells a tenant that the ctx of an order has ended.
type revoke struct{ order *order }

// outcome answers an order.
type outcome struct {
	manifest messages.Manifest // of a snapshot
	err      error
}

func newOrder(ctx context.Context, kind machine.OrderKind, reason machine.Reason) *order {
	return &order{ctx: ctx, kind: kind, reason: reason, reply: make(chan outcome, 1)}
}

func (o *order) answer(t *tenant, a machine.Answer) {
	o.unwatch()
	if o.cancel != nil {
		o.cancel()
	}
	out := outcome{}
	if a.Err != nil {
		out.err = t.act.naming(a.Err)
	} else if o.kind == machine.Snapshot {
		out.manifest = t.manifest
	}
	o.reply <- out
}

// revokePatience is how long a caller whose time is over waits to be told whether anything was done. A tenant answers at once, unless code
// of the application keeps it (Config.OnLifecycle).
const revokePatience = time.Second

// give gives an order and waits for its outcome.
func (a *activation) give(o *order) (messages.Manifest, error) {
	if !a.ref.Send(o) {
		return messages.Manifest{}, a.closed()
	}
	select {
	case out := <-o.reply:
		return out.manifest, out.err
	case <-a.ref.Done():
	case <-o.ctx.Done():
		patience := time.NewTimer(revokePatience)
		defer patience.Stop()
		select {
		case out := <-o.reply:
			return out.manifest, out.err
		case <-a.ref.Done():
		case <-patience.C:
		}
	}
	select {
	case out := <-o.reply: // the tenant answers everything it took before it ends
		return out.manifest, out.err
	default:
		err := o.ctx.Err()
		if err == nil {
			err = a.closed()
		}
		return messages.Manifest{}, messages.Unknown(a.key, a.epoch.Load(), err)
	}
}

// handOff orders a handoff, to next if that is known; "": to whoever comes.
func (a *activation) handOff(ctx context.Context, reason machine.Reason, next string) error {
	o := newOrder(ctx, machine.Handoff, reason)
	o.next = next
	_, err := a.give(o)
	return err
}

func (a *activation) abandon(ctx context.Context) error {
	_, err := a.give(newOrder(ctx, machine.Abandon, machine.Requested))
	return err
}

func (a *activation) forget(ctx context.Context) error {
	_, err := a.give(newOrder(ctx, machine.Forget, machine.Requested))
	return err
}

func (a *activation) snapshot(ctx context.Context) (messages.Manifest, error) {
	return a.give(newOrder(ctx, machine.Snapshot, machine.Requested))
}

func (a *activation) status(ctx context.Context) (Status, error) {
	reply := make(chan Status, 1)
	if !a.ref.Send(statusOf{reply}) {
		return Status{}, a.closed()
	}
	select {
	case status := <-reply:
		return status, nil
	case <-ctx.Done():
		return Status{}, messages.AsError(ctx.Err())
	case <-a.ref.Done():
		select {
		case status := <-reply:
			return status, nil
		default:
			return Status{}, a.closed()
		}
	}
}
