package leaseactor

import (
	"context"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// Release stops the holder at once, for good (reason lease-released), and then tells the store (D7).
// From then on the epoch never serves again, whatever becomes of the answer.
//
// It returns nil when the store does not list the epoch as live any more, or nothing was held. The
// errors are CodeLost: the lease was over before the first release arrived. CodeUnavailable: no
// answer; the next owner may have to wait out the lease (D8). CodeDeadlineExceeded or CodeCanceled:
// ctx ended before the request's turn. After an error it may be called again; after nil, or after
// CodeLost, that does nothing and returns nil.
func (h *Holder) Release(ctx context.Context) error {
	h.fence.Close(messages.ReasonReleased) // before the turn: a request in flight must not delay it
	if err := h.begin(ctx); err != nil {
		return err
	}
	defer h.turn.Release(1)
	held := h.lease.Load()
	if held == nil || h.over {
		return nil
	}
	if !h.cfg.Spent.giveUp(h.id, h.fence, held.Epoch) {
		h.over = true // a later session of this node has taken the epoch over, and will release it
		return nil
	}
	again := h.releaseSent
	h.releaseSent = true
	callCtx, cancel := h.call(ctx)
	err := h.cfg.Store.Release(callCtx, h.cfg.Key, h.cfg.Owner, held.Epoch)
	cancel()
	switch {
	case err == nil || isLost(err):
		h.over = true
		h.cfg.Spent.ended(h.id, held.Epoch)
		if again { // the earlier one took effect, or the lease has run out: what was asked for is so
			return nil
		}
		return err
	case isDefinite(err):
		return err
	}
	if h.cfg.Planted.Has(planted.ServeAfterLostRelease) {
		h.releaseSent = false
		h.fence.reopen(messages.ReasonReleased)
	}
	return h.noAnswer(err)
}

// forgetAttempts bounds how often one MarkForgotten sends its request.
const forgetAttempts = 3

// MarkForgotten closes the fence for good (reason lease-released) and sets the tenant's floor to this
// epoch: nothing of it may be restored any more (S6). It needs a lease that is provably held (D11):
// an open fence when it is first sent. A lost answer is settled by reading the floor; if that is not
// set and this holder's record still stands, the request is sent again.
//
// It returns nil when the floor is known to be set. The errors are CodeFenced: the lease is not
// provably held, nothing was sent. CodeLost: the lease was over, and the floor is not set.
// CodeUnavailable: no answer; it may be called again, and Renew keeps the lease until then.
// CodeDeadlineExceeded or CodeCanceled: ctx ended before the request's turn.
func (h *Holder) MarkForgotten(ctx context.Context) error {
	if err := h.begin(ctx); err != nil {
		return err
	}
	defer h.turn.Release(1)
	if h.forgotten {
		return nil
	}
	held := h.lease.Load()
	doubtful := h.forgetSent // an earlier request may have taken effect, or may still
	if !h.forgetSent {
		if err := h.fence.Check(); err != nil {
			return err
		}
		h.fence.Close(messages.ReasonReleased)
	}
	if !h.cfg.Spent.giveUp(h.id, h.fence, held.Epoch) {
		return h.fence.err() // a later session of this node has taken the epoch over
	}
	h.forgetSent = true
	var err error
	for range forgetAttempts {
		callCtx, cancel := h.call(ctx)
		err = h.cfg.Store.MarkForgotten(callCtx, h.cfg.Key, h.cfg.Owner, held.Epoch)
		cancel()
		switch {
		case err == nil:
			h.forgotten = true
			return nil
		case isLost(err) && !doubtful:
			h.lost()
			return err
		case isDefinite(err) && !isLost(err):
			return err
		}
		if h.cfg.Planted.Has(planted.ForgetResume) && !isLost(err) {
			h.forgetSent = false
			h.fence.reopen(messages.ReasonReleased)
			return h.noAnswer(err)
		}
		doubtful = true
		stands, rerr := h.readFloor(ctx, held.Epoch)
		if rerr != nil {
			break
		}
		if h.forgotten {
			return nil
		}
		if isLost(err) || !stands {
			h.lost()
			return &messages.Error{Code: messages.CodeLost, Key: h.cfg.Key.String(), Epoch: held.Epoch, Message: "the lease was over before the floor was set", Err: err}
		}
	}
	return h.noAnswer(err)
}

// readFloor settles whether the floor is set; stands is false if the record is not this holder's.
func (h *Holder) readFloor(ctx context.Context, epoch uint64) (stands bool, err error) {
	callCtx, cancel := h.call(ctx)
	defer cancel()
	record, ok, err := h.cfg.Store.Read(callCtx, h.cfg.Key)
	if err != nil {
		return false, err
	}
	h.forgotten = ok && record.Floor >= epoch
	return ok && record.Owner == h.cfg.Owner && record.Epoch == epoch, nil
}
