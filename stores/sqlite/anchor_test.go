package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// machine is a computer with a wall clock that can be set and a monotonic clock that cannot.
type machine struct {
	wall time.Time
	boot string
	mono time.Duration
}

func (m *machine) pass(d time.Duration) { m.wall, m.mono = m.wall.Add(d), m.mono+d }

// process opens the lease file as a process that starts now would.
func (m *machine) process(t *testing.T, path string) *Store {
	t.Helper()
	store, err := open(t.Context(), Config{Path: path, NoSync: true}, m.clock())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func (m *machine) clock() clock {
	return clock{wall: func() time.Time { return m.wall }, id: m.boot, mono: func() time.Duration { return m.mono }}
}

// now returns the time of the store as this process tells it: the end of a lease of 1 s that it grants, less 1 s.
func now(t *testing.T, store *Store) time.Time {
	t.Helper()
	key := messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	lease, err := store.Acquire(t.Context(), key, "clock", time.Second)
	require.NoError(t, err)
	require.NoError(t, store.Release(t.Context(), key, "clock", lease.Epoch))
	return lease.End.Add(-time.Second)
}

// The wall clock is set back, the first process is idle for as long as it likes, a second one opens the file and is
// granted a lease: the first one may not be granted the same lease before it is over.
func TestB2_TheOneWhoGrantsIsNotEarlyAfterTheWallClockWasSetBack(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour, "not": 0} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "leases.db")
			m := &machine{wall: noon, boot: "one", mono: time.Hour}
			a := m.process(t, path)
			m.wall = m.wall.Add(step)
			m.pass(10 * time.Minute)
			b := m.process(t, path)
			key := messages.Key{Org: "acme", Tenant: "t-00000000000000000000000000000001"}
			lease, err := b.Acquire(t.Context(), key, "b", time.Minute)
			require.NoError(t, err)
			require.Equal(t, noon.Add(11*time.Minute), lease.End)
			for range 2 {
				_, err = a.Acquire(t.Context(), key, "a", time.Minute)
				require.ErrorIs(t, err, messages.ErrHeld)
				m.pass(time.Minute - time.Millisecond)
			}
			m.pass(time.Millisecond - time.Minute + 2*time.Millisecond)
			lease, err = a.Acquire(t.Context(), key, "a", time.Minute)
			require.NoError(t, err)
			require.Equal(t, uint64(2), lease.Epoch)
		})
	}
}

func TestClock_ProcessesOfOneBootShareTheMonotonicClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	m := &machine{wall: noon, boot: "one", mono: time.Hour}
	first := m.process(t, path)
	require.Equal(t, noon, now(t, first))
	m.pass(time.Minute)
	require.Equal(t, noon.Add(time.Minute), now(t, m.process(t, path)))

	m.wall = m.wall.Add(24 * time.Hour) // set forward, or suspended for a day
	require.Equal(t, noon.Add(time.Minute), now(t, m.process(t, path)))
	m.pass(time.Minute)
	require.Equal(t, noon.Add(2*time.Minute), now(t, m.process(t, path)))

	m.wall = noon.Add(-time.Hour) // set back
	m.pass(time.Minute)
	second := m.process(t, path)
	for range 3 {
		require.Equal(t, now(t, first), now(t, second))
		m.pass(time.Minute)
	}
}

// After a boot there are no holders, and the wall clock counts again; but the time of the store never goes back, and
// goes on at the right rate where the wall clock is behind it.
func TestClock_ABootBeginsWithTheWallClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	m := &machine{wall: noon, boot: "one", mono: time.Hour}
	store := m.process(t, path)
	require.Equal(t, noon, now(t, store))
	require.NoError(t, store.Close())

	m.boot, m.mono, m.wall = "two", time.Second, noon.Add(time.Hour)
	store = m.process(t, path)
	require.Equal(t, noon.Add(time.Hour), now(t, store))
	require.NoError(t, store.Close())

	m.boot, m.mono, m.wall = "three", time.Second, noon
	store = m.process(t, path)
	require.Equal(t, noon.Add(time.Hour), now(t, store))
	m.pass(time.Second)
	require.Equal(t, noon.Add(time.Hour+time.Second), now(t, store))
}

// Two processes that share no clock cannot both use the file: the second is refused, by name, until the first has
// gone. And if somebody has removed the file that tells it, the first grants nothing any more.
func TestClock_AProcessWithAnotherClockIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	m, other := &machine{wall: noon, boot: "one", mono: time.Hour}, &machine{wall: noon, boot: "two"}
	a, again := m.process(t, path), m.process(t, path)
	refused := func() {
		t.Helper()
		_, err := open(t.Context(), Config{Path: path, NoSync: true}, other.clock())
		require.ErrorIs(t, err, messages.ErrUnavailable)
		require.ErrorContains(t, err, "another clock")
		require.ErrorContains(t, err, path)
		require.Equal(t, noon, now(t, a))
	}
	refused()
	require.NoError(t, again.Close())
	refused()

	require.NoError(t, os.Remove(path+usersSuffix))
	b := other.process(t, path)
	require.Equal(t, noon, now(t, b))
	_, err := a.Acquire(t.Context(), messages.Key{Org: "acme", Tenant: "t-00000000000000000000000000000001"}, "a", time.Second)
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorContains(t, err, "another clock")

	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	require.Equal(t, noon, now(t, m.process(t, path)))
}

func TestClock_TheMachineClockIsReal(t *testing.T) {
	id, mono, ok := machineClock(time.Now())
	if !ok {
		require.NoFileExists(t, "/proc/sys/kernel/random/boot_id", "a Linux machine has one")
		return
	}
	again, other, ok := machineClock(time.Now())
	require.True(t, ok)
	require.Equal(t, id, again)
	first, start := mono(), time.Now()
	require.GreaterOrEqual(t, other(), first)
	// It is the clock of Go's monotonic readings: what passes on the one passes on the other.
	passed := mono() - first
	require.LessOrEqual(t, passed, time.Since(start)+time.Second)

	// The default clock notes it in the file; a bubble's time is not the machine's.
	path := filepath.Join(t.TempDir(), "leases.db")
	noted := func() (id string) {
		db, err := sql.Open("sqlite3", path)
		require.NoError(t, err)
		require.NoError(t, db.QueryRow(`SELECT clock_id FROM store`).Scan(&id))
		require.NoError(t, db.Close())
		return id
	}
	synctest.Test(t, func(t *testing.T) {
		store, err := Open(t.Context(), Config{Path: path})
		require.NoError(t, err)
		require.NoError(t, store.Close())
	})
	require.Equal(t, process.id, noted())
	store, err := Open(t.Context(), Config{Path: path})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.Equal(t, id, noted())
}
