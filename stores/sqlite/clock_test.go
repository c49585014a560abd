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

// A Now that is set back ends no lease early, for nobody who uses the file, also who comes later: the time of the
// store stands still until Now has reached it again.
func TestClock_ANowThatIsSetBackEndsNoLeaseEarly(t *testing.T) {
	clock := storetest.NewManualClock(start)
	cfg := sqlite.Config{Path: filepath.Join(t.TempDir(), "leases.db"), Now: clock.Now, NoSync: true}
	first := open(t, cfg)
	clock.Advance(time.Hour)
	clock.Set(start.Add(10 * time.Minute)) // the hour passed while the store was idle
	second := open(t, cfg)
	key := storetest.NewKey()
	lease, err := second.Acquire(t.Context(), key, "b", 10*time.Second)
	require.NoError(t, err)

	clock.Set(start.Add(-24 * time.Hour))
	for _, store := range []*sqlite.Store{first, second} {
		_, err = store.Acquire(t.Context(), key, "a", time.Second)
		require.ErrorIs(t, err, messages.ErrHeld)
		require.Equal(t, 10*time.Second, messages.AsError(err).RetryAfter)
	}
	clock.Set(lease.End.Add(-time.Millisecond))
	_, err = first.Acquire(t.Context(), key, "a", time.Second)
	require.ErrorIs(t, err, messages.ErrHeld)
	clock.Set(lease.End)
	_, err = first.Acquire(t.Context(), key, "a", time.Second)
	require.NoError(t, err)
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
