package client

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// located handles a member's answer to the question who should be sent the request. Nothing was carried out for it,
// whatever it says: no answer leaves a doubt, and a success is one of an ActionLocate only.
func (r *run) located(reply *messages.Reply) (final *messages.Reply, wait time.Duration) {
	e := reply.Error
	if e == nil && r.req.Action == messages.ActionLocate {
		return r.succeeded(reply)
	}
	if e == nil {
		r.named = reply.Owner
		return nil, r.follow(reply.Owner)
	}
	r.refusal = e
	r.trust(reply.Owner) // it has answered
	switch e.Code {
	case messages.CodeNotOwner, messages.CodeDraining, messages.CodeIncapable:
		if e.Owner != "" {
			r.named = e.Owner
			return nil, r.follow(e.Owner)
		}
		wait = r.pace.after(e.RetryAfter, maxDrainPause)
	case messages.CodeOverloaded:
		wait = r.pace.after(e.RetryAfter, e.RetryAfter)
	case messages.CodeHeld, messages.CodeFenced, messages.CodeClosed, messages.CodeCanceled, messages.CodeDeadlineExceeded,
		messages.CodeUnavailable, messages.CodeUnknownOutcome:
		wait = r.pace.backoff()
	default:
		return reply, 0
	}
	r.forget()
	return nil, wait
}

// answered handles the reply of an owner: the reply to give to the caller, or how long to wait until the request goes
// to r.target. But for an unknown outcome, every refusal that is tried again here says that nothing was done.
func (r *run) answered(reply *messages.Reply) (final *messages.Reply, wait time.Duration) {
	e := reply.Error
	r.trust(reply.Owner)
	delete(r.absent, r.target)
	if e == nil {
		return r.succeeded(reply)
	}
	r.refusal = e
	switch e.Code {
	case messages.CodeNotOwner:
		if e.Owner != "" {
			return nil, r.follow(e.Owner)
		}
		named := r.named == r.target
		r.forget()
		if named && !r.req.Opens() {
			// A member has looked for the owner. There is none, and this request makes none.
			return reply, 0
		}
		return nil, r.pace.backoff()
	case messages.CodeDraining, messages.CodeIncapable:
		if e.Owner != "" {
			return nil, r.follow(e.Owner)
		}
		r.forget()
		return nil, r.pace.after(e.RetryAfter, maxDrainPause)
	case messages.CodeHeld:
		return nil, r.held(e)
	case messages.CodeOverloaded, messages.CodeUnsavedLimit:
		return nil, r.pace.after(e.RetryAfter, e.RetryAfter)
	case messages.CodeFenced, messages.CodeLost, messages.CodeClosed, messages.CodeCanceled, messages.CodeDeadlineExceeded, messages.CodeUnavailable:
		return r.interrupted(reply)
	case messages.CodeUnknownOutcome:
		// An answer that is too large will not be smaller the next time.
		if !r.repeatable || e.Cause == messages.CodeTooLarge {
			return reply, 0
		}
		r.doubt = e
		if e.Cause == messages.CodeFenced {
			r.forget()
		}
		return nil, r.pace.backoff()
	}
	if reply.Owner != "" && reply.Epoch != 0 {
		r.client.owners.put(r.req.Key, reply.Owner) // it comes from an open tenant
	}
	return reply, 0
}

// held handles the refusal of a member that would acquire, and waits for the end of the last owner's lease: it is asked
// again. But an owner that this request gave up on for its silence, and that renews its lease meanwhile, is only slow.
func (r *run) held(e *messages.Error) (wait time.Duration) {
	if now := e.Lease; now != nil {
		before := r.lease
		r.lease = *now
		if before.Owner == now.Owner && before.Epoch == now.Epoch && now.End.After(before.End) && slices.Contains(r.req.Avoid, now.Owner) {
			return r.follow(now.Owner)
		}
	}
	return r.pace.after(e.RetryAfter, maxPause)
}

// interrupted handles the refusals that say that nothing was done of what goes to a ledger: these come from the open,
// or from before the commit. Where a tenant is to be closed, they may come from the middle of it, and whoever asks a
// second time may meet the tenant's next life: that is not done.
func (r *run) interrupted(reply *messages.Reply) (final *messages.Reply, wait time.Duration) {
	e := reply.Error
	if closes(r.req.Action) {
		if e.Code == messages.CodeCanceled || e.Code == messages.CodeDeadlineExceeded {
			reply.Error = messages.Unknown(r.req.Key, reply.Epoch, e) // "nothing was done" would be too much
		}
		return reply, 0
	}
	switch e.Code {
	case messages.CodeUnavailable: // a store did not answer; the same node may try again
	case messages.CodeDeadlineExceeded: // of this attempt; ours is not over yet
	default:
		r.forget()
	}
	return nil, r.pace.backoff()
}

// succeeded handles a success: it is the answer, unless it goes backwards.
func (r *run) succeeded(reply *messages.Reply) (final *messages.Reply, wait time.Duration) {
	if closes(r.req.Action) {
		// Who has closed the tenant owns it no more.
		r.client.owners.forget(r.req.Key, r.target)
		r.client.owners.forget(r.req.Key, reply.Owner)
		return reply, 0
	}
	if r.req.Action == messages.ActionLocate || !reply.Seen().Before(r.req.Seen) {
		r.client.owners.put(r.req.Key, reply.Owner)
		return reply, 0
	}
	// The owner should have refused it. Whatever it is, it has missed what the caller has seen.
	why := stale(&r.req, reply)
	r.client.owners.forget(r.req.Key, reply.Owner)
	if !r.repeatable {
		return messages.Refuse(messages.Unknown(r.req.Key, reply.Epoch, why)), 0
	}
	r.doubt = why
	r.avoid(reply.Owner)
	r.forget()
	return nil, r.pace.backoff()
}

// stale is why a success does not count that goes backwards.
func stale(req *messages.Request, reply *messages.Reply) error {
	return &messages.Error{Code: messages.CodeNotOwner, Key: req.Key.String(), Epoch: reply.Epoch,
		Message: "the answer comes from an older state than the caller has seen"}
}

// closes reports whether the action closes the tenant.
func closes(action messages.Action) bool {
	switch action {
	case messages.ActionHandoff, messages.ActionAbandon, messages.ActionForget:
		return true
	}
	return false
}

// tellsState reports whether a success of the action says which state it comes from.
func tellsState(action messages.Action) bool {
	return !closes(action) && action != messages.ActionLocate
}

// implausible returns an error for a reply that no node of ours sends. It says nothing about what was
// done.
func implausible(target string, req *messages.Request, reply *messages.Reply) error {
	var why string
	switch {
	case reply == nil:
		why = "there is no reply"
	case reply.Error != nil && reply.Error.Code == "":
		why = "the error has no code"
	case reply.Error != nil:
		return nil
	case (target == "" || req.Action == messages.ActionLocate) && reply.Owner == "":
		why = "the reply names nobody"
	case target == "" || !tellsState(req.Action):
		return nil
	case reply.Owner == "" || reply.Epoch == 0:
		why = "the reply does not say where it comes from"
	case req.Action == messages.ActionAppend && len(reply.Appended) != len(req.Events):
		why = "the reply answers another number of events"
	case req.Action == messages.ActionQuery && reply.Result == nil, req.Action == messages.ActionSnapshot && reply.Manifest == nil:
		why = "the reply is empty"
	default:
		return nil
	}
	return &messages.Error{Code: messages.CodeInternal, Key: req.Key.String(), Message: "malformed reply: " + why}
}
