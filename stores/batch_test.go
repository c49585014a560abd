package stores_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

const (
	batchWindow = 10 * time.Millisecond
	batchTTL    = time.Second
	batchOwner  = "node-a#1"
)

func batchKey(i int) messages.Key {
	return messages.Key{Org: "acme", Tenant: messages.TenantID(fmt.Sprintf("t-%032x", i))}
}

// batched runs f with n granted leases behind a Batched, in virtual time.
func batched(t *testing.T, n, limit int, f func(t *testing.T, b *stores.Batched, faulty *storetest.FaultyLeases)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		real, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "leases.db"), NoSync: true})
		require.NoError(t, err)
		faulty := storetest.NewFaultyLeases(real)
		b := stores.Batch(faulty, batchWindow, limit)
		defer func() {
			b.Close()
			b.Close()
			require.NoError(t, real.Close())
		}()
		for i := range n {
			_, err := b.Acquire(ctx, batchKey(i), batchOwner, batchTTL)
			require.NoError(t, err)
		}
		f(t, b, faulty)
	})
}

// sizes counts the renewals of each request that reaches the store.
func sizes(faulty *storetest.FaultyLeases) func() []int {
	var mu sync.Mutex
	var out []int
	faulty.Observe(func(e storetest.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Phase == storetest.Called {
			out = append(out, len(e.Call.Renewals))
		}
	})
	return func() []int { mu.Lock(); defer mu.Unlock(); return out }
}

func renewAll(ctx context.Context, b *stores.Batched, n int) []error {
	errs := make([]error, n)
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() { _, errs[i] = b.Renew(ctx, batchKey(i), batchOwner, 1, batchTTL) })
	}
	callers.Wait()
	return errs
}

func TestBatchRenewalsTravelTogetherAndFailAlone(t *testing.T) {
	batched(t, 20, 0, func(t *testing.T, b *stores.Batched, faulty *storetest.FaultyLeases) {
		ctx := context.Background()
		require.NoError(t, b.Release(ctx, batchKey(7), batchOwner, 1))
		got := sizes(faulty)
		start := time.Now()
		for i, err := range renewAll(ctx, b, 20) {
			if i == 7 {
				require.ErrorIs(t, err, messages.ErrLost)
			} else {
				require.NoError(t, err)
			}
		}
		require.Equal(t, []int{20}, got())
		require.Equal(t, batchWindow, time.Since(start))
		lease, err := b.Renew(ctx, batchKey(0), batchOwner, 1, batchTTL)
		require.NoError(t, err)
		require.Equal(t, batchKey(0), lease.Key, "each caller gets its own answer")
	})
}

func TestBatchIsSentWhenItIsFull(t *testing.T) {
	batched(t, 8, 4, func(t *testing.T, b *stores.Batched, faulty *storetest.FaultyLeases) {
		got := sizes(faulty)
		start := time.Now()
		for _, err := range renewAll(context.Background(), b, 8) {
			require.NoError(t, err)
		}
		require.Equal(t, []int{4, 4}, got())
		require.Zero(t, time.Since(start))
	})
}

func TestBatchASlowStoreDoesNotHoldUpTheNextBatch(t *testing.T) {
	batched(t, 2, 0, func(t *testing.T, b *stores.Batched, faulty *storetest.FaultyLeases) {
		reached, open := faulty.GateNext(storetest.OpRenewMany)
		first := make(chan error)
		go func() { _, err := b.Renew(context.Background(), batchKey(0), batchOwner, 1, batchTTL); first <- err }()
		<-reached
		_, err := b.Renew(context.Background(), batchKey(1), batchOwner, 1, batchTTL)
		require.NoError(t, err)
		open()
		require.NoError(t, <-first)
	})
}

func TestBatchHonoursEachCallersContext(t *testing.T) {
	batched(t, 3, 0, func(t *testing.T, b *stores.Batched, faulty *storetest.FaultyLeases) {
		got := sizes(faulty)
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := b.Renew(gone, batchKey(0), batchOwner, 1, batchTTL)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(2 * batchWindow)
		require.Empty(t, got(), "a caller that has given up is not renewed")

		faulty.Every(storetest.OpRenewMany, storetest.DelayAnswer(100*time.Millisecond))
		short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		long := make(chan error)
		go func() { _, err := b.Renew(context.Background(), batchKey(1), batchOwner, 1, batchTTL); long <- err }()
		start := time.Now()
		_, err = b.Renew(short, batchKey(0), batchOwner, 1, batchTTL)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 50*time.Millisecond, time.Since(start))
		require.NoError(t, <-long, "who has more time is not cut short by others")

		// The request itself ends with the last caller that waits for it.
		faulty.Clear()
		faulty.HangNext(storetest.OpRenewMany)
		last, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		ended := false
		faulty.AfterNext(storetest.OpRenewMany, func(context.Context, storetest.Call, storetest.Result) { ended = true })
		_, err = b.Renew(last, batchKey(2), batchOwner, 1, batchTTL)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		synctest.Wait()
		require.True(t, ended)
	})
}

func TestBatchAFailureOfTheRequestIsEverybodys(t *testing.T) {
	batched(t, 3, 0, func(t *testing.T, b *stores.Batched, faulty *storetest.FaultyLeases) {
		faulty.FailNext(storetest.OpRenewMany, errors.New("no route"))
		for _, err := range renewAll(context.Background(), b, 3) {
			require.EqualError(t, err, "no route")
		}
	})
}

func TestBatchClose(t *testing.T) {
	batched(t, 2, 0, func(t *testing.T, b *stores.Batched, faulty *storetest.FaultyLeases) {
		flying, waiting := make(chan error, 1), make(chan error, 1)
		faulty.HangNext(storetest.OpRenewMany)
		go func() {
			_, err := b.Renew(context.Background(), batchKey(0), batchOwner, 1, batchTTL)
			flying <- err
		}()
		time.Sleep(batchWindow)
		synctest.Wait()
		go func() {
			_, err := b.Renew(context.Background(), batchKey(1), batchOwner, 1, batchTTL)
			waiting <- err
		}()
		synctest.Wait()
		b.Close()
		require.ErrorIs(t, <-flying, messages.ErrUnavailable)
		require.ErrorIs(t, <-waiting, messages.ErrClosed)
		_, err := b.Renew(context.Background(), batchKey(0), batchOwner, 1, batchTTL)
		require.ErrorIs(t, err, messages.ErrClosed)
		_, ok, err := b.Read(context.Background(), batchKey(0))
		require.NoError(t, err, "the store below is still open")
		require.True(t, ok)
	})
}

// singles hides the batch method of a store.
type singles struct{ stores.LeaseStore }

func TestBatchInFrontOfAStoreWithoutBatches(t *testing.T) {
	batched(t, 2, 0, func(t *testing.T, b *stores.Batched, faulty *storetest.FaultyLeases) {
		plain := stores.Batch(singles{faulty}, batchWindow, 0)
		defer plain.Close()
		start := time.Now()
		_, err := plain.Renew(context.Background(), batchKey(0), batchOwner, 1, batchTTL)
		require.NoError(t, err)
		require.Zero(t, time.Since(start), "nothing is held back for nothing")
	})
}
