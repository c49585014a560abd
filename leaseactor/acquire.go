package leaseactor

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// Acquire asks for the lease, and opens the fence if it is granted. A Holder that was granted its
// epoch before renews it instead.
//
// An answer that was lost is settled by reading back: what turns out to be this owner's, and was
// not given up (Spent) or forgotten (the floor), is adopted by renewing it, with the window of that
// renewal. So is a lease that the store says this owner holds already.
//
// The errors are CodeHeld: somebody else holds it (with Cause CodeUnavailable if that was only read
// back, and may be over already), or this owner's own last epoch has to be waited out. CodeLost: the
// round trip used up the usable window, and the lease was handed back (D9). CodeUnavailable: no
// answer. CodeFenced: this session was closed. CodeDeadlineExceeded or CodeCanceled: ctx ended before
// the request's turn. After any but CodeFenced it may be called again.
func (h *Holder) Acquire(ctx context.Context) (messages.Lease, error) {
	if err := h.begin(ctx); err != nil {
		return messages.Lease{}, err
	}
	defer h.turn.Release(1)
	if h.lease.Load() != nil {
		return h.renew(ctx)
	}
	if h.fence.Reason() != "" {
		return messages.Lease{}, h.fence.err()
	}
	defer h.cfg.Spent.ask(h.id)()
	sent := h.now()
	callCtx, cancel := h.call(ctx)
	lease, err := h.cfg.Store.Acquire(callCtx, h.cfg.Key, h.cfg.Owner, h.cfg.TTL)
	cancel()
	var held *messages.Error
	switch {
	case err == nil:
		return h.granted(ctx, lease, sent)
	case errors.As(err, &held) && held.Code == messages.CodeHeld:
		if held.Lease == nil || held.Owner != h.cfg.Owner {
			return messages.Lease{}, err
		}
		return h.adopt(ctx, *held.Lease, sent, err)
	case isDefinite(err):
		return messages.Lease{}, err
	}
	return h.readBack(ctx, h.noAnswer(err))
}

// readBack settles an acquire whose answer was lost; unavailable says so.
func (h *Holder) readBack(ctx context.Context, unavailable error) (messages.Lease, error) {
	sent := h.now()
	callCtx, cancel := h.call(ctx)
	record, ok, err := h.cfg.Store.Read(callCtx, h.cfg.Key)
	cancel()
	switch {
	case err != nil || !ok:
		return messages.Lease{}, unavailable
	case record.Owner != h.cfg.Owner:
		return messages.Lease{}, &messages.Error{Code: messages.CodeHeld, Cause: messages.CodeUnavailable, Key: h.cfg.Key.String(),
			Owner: record.Owner, Epoch: record.Epoch, Lease: &record, Message: "no answer, and the record names another owner", Err: unavailable}
	}
	return h.adopt(ctx, record, sent, unavailable)
}

// adopt takes over a record that names this owner, by renewing it; whether it is live the store
// decides then. A record that must not be adopted is waited out: the answer is why.
func (h *Holder) adopt(ctx context.Context, record messages.Lease, sent time.Time, why error) (messages.Lease, error) {
	anything := h.cfg.Planted.Has(planted.AdoptReleasedEpoch)
	// An epoch at or below the floor is forgotten: what is written in it would never be restored.
	if record.Floor >= record.Epoch && !anything || !h.cfg.Spent.adopt(h.id, h.fence, record.Epoch, anything) {
		return messages.Lease{}, why
	}
	if h.cfg.Planted.Has(planted.AdoptWithoutRenewal) {
		return h.granted(ctx, record, sent)
	}
	sent = h.now()
	lease, err := h.sendRenew(ctx, record.Epoch, sent)
	switch {
	case err == nil:
		return h.granted(ctx, lease, sent)
	case isLost(err): // it was over already
		return messages.Lease{}, why
	}
	return messages.Lease{}, h.noAnswer(err)
}

// granted opens the fence for a lease whose request was sent at an instant.
func (h *Holder) granted(ctx context.Context, lease messages.Lease, sent time.Time) (messages.Lease, error) {
	deadline := h.deadline(sent)
	if !h.now().Before(deadline) {
		return messages.Lease{}, h.handBack(ctx, lease)
	}
	if !h.cfg.Spent.grant(h.id, h.fence, lease.Epoch) {
		h.fence.Close(messages.ReasonReleased)
		return messages.Lease{}, h.fence.err()
	}
	h.lease.Store(&lease)
	h.fence.lease.Store(&fenced{lease.Key, lease.Epoch})
	h.fence.extend(deadline)
	if h.fence.Reason() != "" { // closed meanwhile; a Release is on its way
		return messages.Lease{}, h.fence.err()
	}
	return lease, nil
}

// handBack releases a lease that came too late to be of use (D9). The session holds nothing then.
func (h *Holder) handBack(ctx context.Context, lease messages.Lease) error {
	late := &messages.Error{Code: messages.CodeLost, Key: h.cfg.Key.String(), Epoch: lease.Epoch,
		Message: "the round trip of the acquire used up the usable window; the lease was handed back"}
	if !h.cfg.Spent.giveUp(h.id, h.fence, lease.Epoch) {
		return late // a later session has adopted it
	}
	// The caller's time may be over, but the next owner should not have to wait out the ttl.
	callCtx, cancel := h.call(context.WithoutCancel(ctx))
	defer cancel()
	err := h.cfg.Store.Release(callCtx, h.cfg.Key, h.cfg.Owner, lease.Epoch)
	if err == nil || isLost(err) {
		h.cfg.Spent.ended(h.id, lease.Epoch)
	}
	h.cfg.Log.Warn("lease granted too late to be used, and handed back", "key", h.cfg.Key.String(), "epoch", lease.Epoch, "released", err == nil)
	return late
}
