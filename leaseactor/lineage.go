package leaseactor

import (
	"context"
	"errors"

	"github.com/leasehold/leasehold/messages"
)

// markAttempts bounds how often one MarkLineage sends its request.
const markAttempts = 3

// MarkLineage records in the lease store that the durable store holds copies of the tenant (contract line K2). It moves no
// window. A request that has no answer is sent again: it may take effect twice, or late, and says the same each time.
//
// It returns nil when the record says so. The errors are CodeFenced: there is no lease, or not any more; nothing was sent.
// CodeLost: the store refused, the fence is closed for good. CodeUnavailable: no answer; it may be called again.
// CodeDeadlineExceeded or CodeCanceled: ctx ended before the request's turn.
func (h *Holder) MarkLineage(ctx context.Context) error {
	if err := h.begin(ctx); err != nil {
		return err
	}
	defer h.turn.Release(1)
	held := h.lease.Load()
	var err error
	for range markAttempts {
		if held == nil || h.over || h.fence.Reason() != "" {
			return h.fence.err()
		}
		callCtx, cancel := h.call(ctx)
		err = h.cfg.Store.MarkLineage(callCtx, h.cfg.Key, h.cfg.Owner, held.Epoch)
		cancel()
		switch {
		case errors.Is(err, messages.ErrLost):
			h.lost()
			return err
		case err == nil || isDefinite(err):
			return err
		}
	}
	return h.noAnswer(err)
}
