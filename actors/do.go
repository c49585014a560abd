package actors

import (
	"context"
	"errors"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/messages"
)

// Do carries out a request that came over the wire, on this node. A tenant that is not open is opened,
// or refused: see messages.Request.Opens. The reply names the owner, the epoch and the last seq that it comes
// from; its Error has the codes that the methods of Tenant return, and:
//
//   - CodeHistoryLost: the caller has seen events that this epoch did not begin with, or an epoch that the lease store
//     has never granted
//   - CodeUnknownTenant: there is no such tenant, and the request does not create one (messages.Request.Creates)
//   - CodeNotOwner: there is a later epoch than this node's, and the caller has seen it; or the tenant is not open here
//
// A copy of a repeatable request that comes while another is carried out (messages.Request.ID) is answered as that is.
// The deadline is the earlier one of ctx and of the request.
func (n *Node) Do(ctx context.Context, req *messages.Request) *messages.Reply {
	reply := &messages.Reply{Owner: n.owner}
	if err := req.Validate(); err != nil {
		reply.Error = messages.AsError(err)
		return reply
	}
	if req.TimeoutMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, req.Timeout())
		defer cancel()
	}
	switch {
	case req.Action == messages.ActionLocate:
		return reply // a node that is asked alone is the one to ask
	case req.ID != "" && (req.Action == messages.ActionAppend || req.Action == messages.ActionCall) && req.Repeatable():
		return n.copies.do(ctx, req, func() *messages.Reply { return n.carryOut(ctx, req, reply) })
	}
	return n.carryOut(ctx, req, reply)
}

// carryOut is Do for a request that is this node's to carry out.
func (n *Node) carryOut(ctx context.Context, req *messages.Request, reply *messages.Reply) *messages.Reply {
	t := &Tenant{node: n, key: req.Key}
	var err error
	switch req.Action {
	case messages.ActionSnapshot, messages.ActionHandoff, messages.ActionAbandon, messages.ActionForget:
		err = t.doOrder(ctx, req, reply)
	default:
		err = t.doLedger(ctx, req, reply)
	}
	reply.Error = messages.AsError(err)
	return reply
}

// doLedger carries out what goes to the ledger.
func (t *Tenant) doLedger(ctx context.Context, req *messages.Request, reply *messages.Reply) error {
	create := req.Creates() && (req.Action != messages.ActionCall || t.node.knows(req.Command))
	return t.serve(ctx, string(req.Action), create, func(ctx context.Context, act *activation) (err error) {
		l := act.ledger.Load()
		if err := act.reveals(ctx, req.Seen, l.Status().LastSeq, reply); err != nil {
			return err
		}
		switch req.Action {
		case messages.ActionAppend:
			reply.Appended, err = l.Append(ctx, req.Events)
			// No more than these: whoever is told a seq will be told when it is lost.
			for _, done := range reply.Appended {
				reply.Seq = max(reply.Seq, done.Seq)
			}
			return err
		case messages.ActionCall:
			act.callOf(req.Command)
			ctx, done := t.node.untilItStops(ctx)
			defer done()
			reply.Output, reply.Duplicate, err = l.CallOnce(ctx, req.Command, req.IdemKey, req.Input)
			// Read after the work, whose commit has been told by then: what the work has seen is not newer.
			reply.Seq = l.Status().LastSeq
			return err
		}
		seq := int64(0)
		switch req.Action {
		case messages.ActionQuery:
			args := make([]any, len(req.Args))
			for i, raw := range req.Args {
				if args[i], err = messages.DecodeValue(raw); err != nil {
					return err
				}
			}
			reply.Result, seq, err = l.QueryAt(ctx, req.SQL, args...)
		case messages.ActionEvents:
			reply.Events, reply.More, seq, err = l.EventsAt(ctx, req.After, req.Limit)
		}
		if err == nil {
			reply.Seq = seq // of what it shows
		}
		return err
	})
}

// doOrder carries out what goes to the tenant actor.
func (t *Tenant) doOrder(ctx context.Context, req *messages.Request, reply *messages.Reply) error {
	if act, ok := t.node.active.Load(t.key); ok {
		reply.Epoch = act.(*activation).epoch.Load()
	}
	switch req.Action {
	case messages.ActionSnapshot:
		manifest, err := t.Snapshot(ctx)
		if err != nil {
			return err
		}
		reply.Manifest, reply.Epoch, reply.Seq = &manifest, manifest.Epoch, manifest.LastSeq
		return nil
	case messages.ActionHandoff:
		return t.ifOpen(ctx, func(ctx context.Context, act *activation) error { return act.handOff(ctx, machine.Requested, "") })
	case messages.ActionAbandon:
		return t.ifOpen(ctx, func(ctx context.Context, act *activation) error { return act.abandon(ctx) })
	default:
		return t.Forget(ctx)
	}
}

// ifOpen is Node.ifHere that tells a tenant which is not open from one that there is not.
func (t *Tenant) ifOpen(ctx context.Context, order func(context.Context, *activation) error) error {
	err := t.node.ifHere(ctx, t.key, order)
	if errors.Is(err, messages.ErrNotOwner) {
		if lease, _, failed := t.node.Lease(ctx, t.key); failed == nil && !lease.Exists() {
			if absent := t.node.Absent(ctx, t.key, lease); absent != nil {
				return absent
			}
		}
	}
	return err
}

// reveals fills in the state that a reply comes from, and refuses a caller who has seen one that it is not
// a later stage of.
func (a *activation) reveals(ctx context.Context, seen messages.Seen, lastSeq int64, reply *messages.Reply) error {
	epoch := a.epoch.Load()
	reply.Epoch, reply.Seq = epoch, lastSeq
	switch {
	case epoch < seen.Epoch:
		return a.behind(ctx, seen)
	case epoch > seen.Epoch && seen.Lost(*a.began.Load()), epoch == seen.Epoch && lastSeq < seen.Seq:
		return &messages.Error{Code: messages.CodeHistoryLost, Key: a.key.String(), Epoch: epoch,
			Message: "a crash has taken events that the caller has seen: the declared loss; nothing was done"}
	}
	return nil
}

// behind refuses a caller who has seen a later epoch than this one. Mostly somebody else has taken the tenant over, and this
// node does not know yet. But a lease store that is asked now has granted every epoch that the caller can have seen: if it knows
// no such epoch, the state comes from another cluster, or from before the store lost its records. It is no part of this
// history, and no node will ever catch up with it.
func (a *activation) behind(ctx context.Context, seen messages.Seen) error {
	refusal := &messages.Error{Code: messages.CodeNotOwner, Key: a.key.String(), Epoch: a.epoch.Load(), Message: "the caller has seen a later epoch"}
	lease, known, err := a.node.Lease(ctx, a.key)
	switch {
	case err != nil:
		refusal.Err = err // whether there is such an epoch will be seen
	case !known || lease.Epoch < seen.Epoch:
		refusal.Code, refusal.Message = messages.CodeHistoryLost, "the caller has seen an epoch that the lease store has never granted; nothing was done"
	case lease.Owner != a.node.owner:
		refusal.Owner, refusal.Epoch = lease.Owner, lease.Epoch
	}
	return refusal
}
