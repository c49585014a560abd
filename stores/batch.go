package stores

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Batched is a LeaseStore whose renewals travel together: see Batch. All other methods go straight to
// the store below it. It is safe for concurrent use.
type Batched struct {
	LeaseStore
	renewer BatchRenewer // nil: the store below has none, and renewals go one by one
	window  time.Duration
	max     int

	mu      sync.Mutex
	pending []*waiting
	timer   *time.Timer // sends pending
	closed  bool

	inFlight sync.WaitGroup
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
}

// waiting is one caller of Renew.
type waiting struct {
	ctx     context.Context
	renewal Renewal
	result  chan RenewalResult // buffered: the caller may be gone
}

// Batch returns a store that holds a renewal back for at most window, and sends those that have come
// together, at most limit (below 1: no limit), as one RenewMany. A node uses it to renew hundreds of
// leases in one round trip. If store is no BatchRenewer, renewals pass through singly.
//
// A holder reads its sending time before it calls Renew, so the window shortens its usable time; it
// should be a small part of the ttl. Close the Batched before the store.
func Batch(store LeaseStore, window time.Duration, limit int) *Batched {
	b := &Batched{LeaseStore: store, window: window, max: limit}
	b.renewer, _ = store.(BatchRenewer)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Renew implements LeaseStore. When ctx ends before the answer it returns CodeUnavailable, and the
// renewal may take effect all the same. After Close it is CodeClosed, and nothing was sent.
func (b *Batched) Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error) {
	if b.renewer == nil {
		return b.LeaseStore.Renew(ctx, key, owner, epoch, ttl)
	}
	w := &waiting{ctx: ctx, renewal: Renewal{Key: key, Owner: owner, Epoch: epoch, TTL: ttl}, result: make(chan RenewalResult, 1)}
	if !b.add(w) {
		return messages.Lease{}, errBatchClosed()
	}
	select {
	case r := <-w.result:
		return r.Lease, r.Err
	case <-ctx.Done():
		return messages.Lease{}, &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeOf(ctx.Err()), Key: key.String(),
			Message: "the lease store did not answer in time", Err: context.Cause(ctx)}
	}
}

func errBatchClosed() error {
	return &messages.Error{Code: messages.CodeClosed, Message: "the lease store is closed"}
}

func (b *Batched) add(w *waiting) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.pending = append(b.pending, w)
	switch {
	case b.max > 0 && len(b.pending) >= b.max:
		b.send()
	case b.timer == nil:
		b.timer = time.AfterFunc(b.window, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.send()
		})
	}
	return true
}

// send hands what is pending to a goroutine of its own: the next batch need not wait for this one's
// answer. It is called with the lock held. A timer that fires after its batch has gone sends the
// next one early, which does no harm.
func (b *Batched) send() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	batch := b.pending[:0:0]
	for _, w := range b.pending {
		if w.ctx.Err() == nil { // who has given up already is not to be renewed
			batch = append(batch, w)
		}
	}
	b.pending = nil
	if len(batch) == 0 || b.closed {
		return
	}
	b.inFlight.Go(func() { b.renew(batch) })
}

// renew sends one batch. It ends when the last of its callers has given up.
func (b *Batched) renew(batch []*waiting) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	var left sync.WaitGroup
	renewals := make([]Renewal, len(batch))
	for i, w := range batch {
		renewals[i] = w.renewal
		left.Add(1)
		stop := context.AfterFunc(w.ctx, left.Done)
		defer func() {
			if stop() {
				left.Done()
			}
		}()
	}
	b.inFlight.Go(func() { left.Wait(); cancel() })
	results, err := b.renewer.RenewMany(ctx, renewals)
	if err == nil && len(results) != len(batch) {
		err = &messages.Error{Code: messages.CodeInternal, Message: fmt.Sprintf("the lease store answered %d of %d renewals", len(results), len(batch))}
	}
	for i, w := range batch {
		if err != nil {
			w.result <- RenewalResult{Err: err}
		} else {
			w.result <- results[i]
		}
	}
}

// Close refuses further renewals, ends those that wait (CodeClosed) or are in flight
// (CodeUnavailable), and waits for the latter. It does not close the store below. Closing twice is fine.
func (b *Batched) Close() {
	b.mu.Lock()
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
	}
	for _, w := range b.pending {
		w.result <- RenewalResult{Err: errBatchClosed()}
	}
	b.pending = nil
	b.mu.Unlock()
	b.cancel()
	b.inFlight.Wait()
}
