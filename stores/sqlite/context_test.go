package sqlite_test

import (
	"context"
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

// lock takes the write lock of a lease file as another process would.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	conn, err := raw(t, path).Conn(t.Context())
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), `BEGIN IMMEDIATE`)
	require.NoError(t, err)
	return sync.OnceFunc(func() {
		_, err := conn.ExecContext(context.Background(), `ROLLBACK`)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	})
}

func TestContext_EndsTheWaitForALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	store := open(t, sqlite.Config{Path: path})
	key := storetest.NewKey()
	lease, err := store.Acquire(t.Context(), key, "a", time.Hour)
	require.NoError(t, err)
	unlock := lock(t, path)
	defer unlock()

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = store.Renew(ctx, key, "a", 1, time.Hour)
	require.Equal(t, messages.CodeUnavailable, messages.CodeOf(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)

	// A reader waits for no writer.
	got, ok, err := store.Read(t.Context(), key)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, lease, got)

	unlock()
	_, err = store.Renew(t.Context(), key, "a", 1, time.Hour)
	require.NoError(t, err)
}

func TestContext_BusyTimeoutWithoutADeadline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	store := open(t, sqlite.Config{Path: path, BusyTimeout: 30 * time.Millisecond})
	unlock := lock(t, path)
	defer unlock()
	_, err := store.Acquire(t.Context(), storetest.NewKey(), "a", time.Hour)
	require.Equal(t, messages.CodeUnavailable, messages.CodeOf(err))
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

func TestContext_EndedBeforeTheCall(t *testing.T) {
	store := open(t, sqlite.Config{})
	key := storetest.NewKey()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, acquire := store.Acquire(ctx, key, "a", time.Hour)
	_, renew := store.Renew(ctx, key, "a", 1, time.Hour)
	_, many := store.RenewMany(ctx, []stores.Renewal{{Key: key, Owner: "a", Epoch: 1, TTL: time.Hour}})
	_, _, read := store.Read(ctx, key)
	_, history := store.History(ctx, key)
	_, leases := store.Leases(ctx, "", 1)
	for _, err := range []error{acquire, renew, many, read, history, leases,
		store.Release(ctx, key, "a", 1), store.MarkForgotten(ctx, key, "a", 1)} {
		require.Equal(t, messages.CodeUnavailable, messages.CodeOf(err))
		require.ErrorIs(t, err, context.Canceled)
	}
	_, ok, err := store.Read(t.Context(), key)
	require.NoError(t, err)
	require.False(t, ok)
}

// A caller whose deadline passes while its transaction runs is not kept waiting; the transaction takes
// effect all the same, and the caller was told that it might.
func TestContext_EndsDuringATransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	synctest.Test(t, func(t *testing.T) {
		clock := storetest.NewTrippingClock(time.Now)
		store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Now: clock.Now, NoSync: true})
		require.NoError(t, err)
		// The next reading, within the transaction, takes a minute: as a disk that hangs.
		clock.TripAt(1, func() { time.Sleep(time.Minute) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		key := storetest.NewKey()
		asked := time.Now()
		_, err = store.Acquire(ctx, key, "a", time.Hour)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(asked))

		// The next writer waits its turn, and finds the lease granted.
		_, err = store.Acquire(t.Context(), key, "b", time.Hour)
		require.ErrorIs(t, err, messages.ErrHeld)
		require.Equal(t, "a", messages.AsError(err).Owner)
		require.Equal(t, time.Minute, time.Since(asked))
		require.NoError(t, store.Close())
	})
}

func TestClose_RefusesWhatComesAfter(t *testing.T) {
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "leases.db")})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.NoError(t, store.Close())
	_, err = store.Acquire(t.Context(), storetest.NewKey(), "a", time.Hour)
	require.ErrorIs(t, err, messages.ErrClosed)
	_, _, err = store.Read(t.Context(), storetest.NewKey())
	require.ErrorIs(t, err, messages.ErrClosed)
}

func TestClose_BesideOperations(t *testing.T) {
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "leases.db")})
	require.NoError(t, err)
	var wg sync.WaitGroup
	begun := make(chan struct{}, 8)
	for i := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				var err error
				if i%2 == 0 {
					_, err = store.Acquire(t.Context(), storetest.NewKey(), "a", time.Hour)
				} else {
					_, err = store.History(t.Context(), storetest.NewKey())
				}
				if n == 0 {
					begun <- struct{}{}
				}
				if err != nil {
					if messages.CodeOf(err) != messages.CodeClosed {
						t.Errorf("beside Close: %v", err)
					}
					return
				}
			}
		})
	}
	for range 8 {
		<-begun
	}
	require.NoError(t, store.Close())
	wg.Wait()
}
