package leaseactor

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// Holder is one session of a lease holder: it is granted one epoch at most, and when that is over, so
// is the Holder. All methods are safe for concurrent use. Its requests run one at a time, in the
// order of the calls (D10), each bounded by Config.CallTimeout and by the caller's context.
//
// A request that times out may still take effect later. That is harmless by construction: only the
// answer to a request moves the deadline, and only to that request's own sending plus ttl − margin.
type Holder struct {
	cfg   Config
	fence *Fence
	id    tenancy
	// turn is a first-in first-out lock that can be waited for with a context. It guards the fields
	// below it; lease may be read without it.
	turn  *semaphore.Weighted
	lease atomic.Pointer[messages.Lease]

	forgetSent  bool // there is no way back to serving
	forgotten   bool // the floor is known to be set
	releaseSent bool
	over        bool // the store has said that it does not list this epoch as live any more
	late        lateAnswers
}

// NewHolder returns a session that holds nothing yet, or what Config.Validate refuses. It touches no
// store.
func NewHolder(cfg Config) (*Holder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &Holder{cfg: cfg.withDefaults(), fence: NewFence(cfg.Now), id: tenancy{cfg.Key, cfg.Owner}, turn: semaphore.NewWeighted(1)}
	h.fence.lease.Store(&fenced{key: cfg.Key})
	h.fence.ignoreDeadline = cfg.Planted.Has(planted.NoSelfFence)
	return h, nil
}

// Fence returns the session's fence; always the same one.
func (h *Holder) Fence() *Fence { return h.fence }

// Lease returns the record as the store last answered it; the zero Lease before a grant.
func (h *Holder) Lease() messages.Lease {
	if l := h.lease.Load(); l != nil {
		return *l
	}
	return messages.Lease{}
}

// Renew asks for the lease's whole ttl anew. If the store grants it, the window runs from the moment
// this request was sent (D2); that opens a fence that had run out (D3), but never one that was closed.
// If the answer came after that window, Renew returns no error, and the fence is still closed.
//
// The errors are CodeLost: the store refused, the fence is closed for good (D4). CodeUnavailable: no
// answer; the holder goes on to its deadline. CodeFenced: nothing was sent, because there is nothing
// to renew, or not any more. CodeDeadlineExceeded or CodeCanceled: ctx ended before the request's turn.
//
// While it forgets, a holder may still renew, so that a MarkForgotten can be tried again; its fence
// stays closed.
func (h *Holder) Renew(ctx context.Context) (messages.Lease, error) {
	if err := h.begin(ctx); err != nil {
		return messages.Lease{}, err
	}
	defer h.turn.Release(1)
	return h.renew(ctx)
}

func (h *Holder) renew(ctx context.Context) (messages.Lease, error) {
	held := h.lease.Load()
	if held == nil || h.over || h.releaseSent || (h.fence.Reason() != "" && !h.forgetSent) {
		return messages.Lease{}, h.fence.err()
	}
	sent := h.now()
	lease, err := h.sendRenew(ctx, held.Epoch, sent)
	switch {
	case err == nil:
		h.lease.Store(&lease)
		h.fence.extend(h.deadline(sent))
		return lease, nil
	case isLost(err):
		if h.cfg.Planted.Has(planted.IgnoreLeaseLost) {
			// Without the cause: whoever asks must not see the refusal in it either.
			return messages.Lease{}, &messages.Error{Code: messages.CodeUnavailable, Key: h.cfg.Key.String(), Message: "a refusal was ignored (planted fault)"}
		}
		h.lost()
		return messages.Lease{}, err
	}
	return messages.Lease{}, h.noAnswer(err)
}

// lost ends the session: the store has said that the epoch is not live any more (D4).
func (h *Holder) lost() {
	h.over = true
	h.fence.Close(messages.ReasonLeaseLost)
	h.cfg.Spent.ended(h.id, h.Lease().Epoch)
	h.cfg.Log.Warn("lease lost", "key", h.cfg.Key.String(), "epoch", h.Lease().Epoch)
}

// begin waits for the turn. Nothing was done if it fails.
func (h *Holder) begin(ctx context.Context) error {
	if err := h.turn.Acquire(ctx, 1); err != nil {
		return messages.AsError(err)
	}
	return nil
}

func (h *Holder) now() time.Time {
	if h.cfg.Now == nil {
		return time.Now()
	}
	return h.cfg.Now()
}

// deadline returns the end of the window of a request that was sent at an instant and is answered now.
func (h *Holder) deadline(sent time.Time) time.Time {
	if h.cfg.Planted.Has(planted.WindowFromAnswer) {
		sent = h.now()
	}
	margin := h.cfg.Margin
	if h.cfg.Planted.Has(planted.MarginZero) {
		margin = 0
	}
	return sent.Add(h.cfg.TTL - margin)
}

// call bounds one request.
func (h *Holder) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, h.cfg.CallTimeout)
}
