package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// machine is a computer with a wall clock that can be set and a monotonic clock that cannot.
type machine struct {
	wall time.Time
	boot string
	mono time.Duration
}

func (m *machine) pass(d time.Duration) { m.wall, m.mono = m.wall.Add(d), m.mono+d }

// start opens the lease file as a process that starts now would, and returns the time of the store.
func (m *machine) start(t *testing.T, path string) time.Time {
	t.Helper()
	store, err := Open(t.Context(), Config{Path: path, NoSync: true, Now: func() time.Time { return m.wall }})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	// Open has no machine with a Now of its own; anchor again with this one.
	store.clock.machine = func(time.Time) (string, time.Duration, bool) { return m.boot, m.mono, true }
	now, err := write(context.Background(), store, func(ctx context.Context, tx *tx) (int64, error) {
		if err := store.clock.anchor(ctx, tx.conn); err != nil {
			return 0, err
		}
		return store.clock.read(ctx, tx.conn)
	})
	require.NoError(t, err)
	return time.UnixMilli(now).UTC()
}

func TestClock_ProcessesOfOneBootShareTheMonotonicClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	m := &machine{wall: noon, boot: "one", mono: time.Hour}
	require.Equal(t, noon, m.start(t, path))
	m.pass(time.Minute)
	require.Equal(t, noon.Add(time.Minute), m.start(t, path))

	m.wall = m.wall.Add(24 * time.Hour) // set forward, or suspended for a day
	require.Equal(t, noon.Add(time.Minute), m.start(t, path))
	m.pass(time.Minute)
	require.Equal(t, noon.Add(2*time.Minute), m.start(t, path))

	m.wall = noon.Add(-time.Hour) // set back: the earlier counts
	require.Equal(t, noon.Add(-time.Hour), m.start(t, path))

	m.boot, m.mono, m.wall = "two", time.Second, noon.Add(time.Hour) // a boot, after which nobody holds anything
	require.Equal(t, noon.Add(time.Hour), m.start(t, path))
	m.pass(time.Second)
	require.Equal(t, noon.Add(time.Hour+time.Second), m.start(t, path))
}

func TestClock_TheMachineTimeIsReal(t *testing.T) {
	boot, first, ok := machineTime(time.Now())
	if !ok {
		require.NoFileExists(t, "/proc/sys/kernel/random/boot_id", "a Linux machine has one")
		return
	}
	again, second, ok := machineTime(time.Now())
	require.True(t, ok)
	require.Equal(t, boot, again)
	require.GreaterOrEqual(t, second, first)

	// The default clock notes it in the file; a bubble's time is not the machine's.
	path := filepath.Join(t.TempDir(), "leases.db")
	noted := func() (id string) {
		db, err := sql.Open("sqlite3", path)
		require.NoError(t, err)
		require.NoError(t, db.QueryRow(`SELECT boot_id FROM store`).Scan(&id))
		require.NoError(t, db.Close())
		return id
	}
	synctest.Test(t, func(t *testing.T) {
		store, err := Open(t.Context(), Config{Path: path})
		require.NoError(t, err)
		require.NoError(t, store.Close())
	})
	require.Empty(t, noted())
	store, err := Open(t.Context(), Config{Path: path})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.Equal(t, boot, noted())
}
