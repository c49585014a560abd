package sqlite_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

// A clock that is set back neither ends a lease early nor lengthens it: the store's clock goes on from
// where it was, at the right rate.
func TestClock_SetBackChangesNothing(t *testing.T) {
	store, clock := openManual(t)
	key := storetest.NewKey()
	lease, err := store.Acquire(t.Context(), key, "a", 10*time.Second)
	require.NoError(t, err)

	clock.Set(start.Add(-24 * time.Hour))
	_, err = store.Acquire(t.Context(), key, "b", time.Second)
	require.ErrorIs(t, err, messages.ErrHeld)
	require.Equal(t, 10*time.Second, messages.AsError(err).RetryAfter)

	clock.Advance(4 * time.Second)
	renewed, err := store.Renew(t.Context(), key, "a", 1, 10*time.Second)
	require.NoError(t, err)
	require.Equal(t, lease.End.Add(4*time.Second), renewed.End)

	clock.Advance(10 * time.Second)
	next, err := store.Acquire(t.Context(), key, "b", time.Second)
	require.NoError(t, err)
	require.Equal(t, uint64(2), next.Epoch)
	trail, err := store.History(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, 14*time.Second, trail[2].At.Sub(trail[0].At))
}

// The same for a process that starts after the clock was set back: it goes on from the newest time in
// the file, and not with a clock that stands still until the wall has caught up.
func TestClock_SetBackBeforeARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	clock := storetest.NewManualClock(start)
	cfg := sqlite.Config{Path: path, Now: clock.Now, NoSync: true}
	first := open(t, cfg)
	key := storetest.NewKey()
	_, err := first.Acquire(t.Context(), key, "a", 10*time.Second)
	require.NoError(t, err)

	clock.Set(start.Add(-time.Hour))
	second := open(t, cfg)
	_, err = second.Acquire(t.Context(), key, "b", time.Second)
	require.ErrorIs(t, err, messages.ErrHeld)
	clock.Advance(10 * time.Second)
	_, err = second.Acquire(t.Context(), key, "b", time.Second)
	require.NoError(t, err)
}

// Two processes whose wall clocks differ share one clock: the one that is ahead.
func TestClock_IsSharedThroughTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	ahead, behind := storetest.NewManualClock(start.Add(time.Minute)), storetest.NewManualClock(start)
	slow := open(t, sqlite.Config{Path: path, Now: behind.Now, NoSync: true})
	fast := open(t, sqlite.Config{Path: path, Now: ahead.Now, NoSync: true})
	key := storetest.NewKey()
	var last time.Time
	for i, store := range []*sqlite.Store{slow, fast, slow, fast, slow} {
		lease, err := store.Acquire(t.Context(), key, "a", time.Second)
		require.NoError(t, err)
		require.Equal(t, uint64(i+1), lease.Epoch)
		require.False(t, lease.End.Before(last), "the clock went back at step %d", i)
		last = lease.End
		require.NoError(t, store.Release(t.Context(), key, "a", lease.Epoch))
	}
	require.Equal(t, start.Add(time.Minute+time.Second).Truncate(time.Millisecond), last)
}

// With the default clock the store counts with the monotonic clock, which a bubble makes exact.
func TestClock_DefaultIsMonotonic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, NoSync: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, store.Close()) }()
		key := storetest.NewKey()
		_, err = store.Acquire(t.Context(), key, "a", time.Hour)
		require.NoError(t, err)
		time.Sleep(time.Hour - time.Millisecond)
		_, err = store.Acquire(t.Context(), key, "b", time.Hour)
		require.ErrorIs(t, err, messages.ErrHeld)
		time.Sleep(time.Millisecond)
		_, err = store.Acquire(t.Context(), key, "b", time.Hour)
		require.NoError(t, err)
	})
}
