package leaseactor

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// sendRenew sends one renewal and waits for its own answer.
func (h *Holder) sendRenew(ctx context.Context, epoch uint64, sent time.Time) (messages.Lease, error) {
	callCtx, cancel := h.call(ctx)
	defer cancel()
	var lease messages.Lease
	var err error
	if h.cfg.Planted.Has(planted.LateAnswerNewestSent) {
		lease, err = h.sendRenewLate(ctx, callCtx, epoch, sent)
	} else {
		lease, err = h.cfg.Store.Renew(callCtx, h.cfg.Key, h.cfg.Owner, epoch, h.cfg.TTL)
	}
	if err == nil && lease.Epoch != epoch {
		return messages.Lease{}, &messages.Error{Code: messages.CodeInternal, Key: h.cfg.Key.String(), Message: "the lease store renewed another epoch than it was asked to"}
	}
	return lease, err
}

// lateAnswers is the state of planted.LateAnswerNewestSent: when the newest request was sent.
type lateAnswers struct{ newest atomic.Pointer[time.Time] }

// sendRenewLate is planted.LateAnswerNewestSent: it goes on listening after the timeout, and takes
// the answer that comes then for that of whatever request was sent last.
func (h *Holder) sendRenewLate(ctx, callCtx context.Context, epoch uint64, sent time.Time) (messages.Lease, error) {
	h.late.newest.Store(&sent)
	type answer struct {
		lease messages.Lease
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		longCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*h.cfg.TTL)
		defer cancel()
		lease, err := h.cfg.Store.Renew(longCtx, h.cfg.Key, h.cfg.Owner, epoch, h.cfg.TTL)
		if held := h.lease.Load(); err == nil && callCtx.Err() != nil && held != nil && held.Epoch == epoch {
			h.fence.extend(h.deadline(*h.late.newest.Load()))
		}
		answers <- answer{lease, err}
	}()
	select {
	case a := <-answers:
		return a.lease, a.err
	case <-callCtx.Done():
		return messages.Lease{}, callCtx.Err()
	}
}
