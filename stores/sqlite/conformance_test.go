package sqlite_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

// breakEnv plants NoCompareAndSet into the contenders of a race.
const breakEnv = "LEASEHOLD_SQLITE_TEST_BREAK"

func open(t *testing.T, cfg sqlite.Config) *sqlite.Store {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "leases.db")
	}
	s, err := sqlite.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// start is the instant at which manual clocks stand at first.
var start = time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC)

func openManual(t *testing.T) (*sqlite.Store, *storetest.ManualClock) {
	t.Helper()
	clock := storetest.NewManualClock(start)
	return open(t, sqlite.Config{Now: clock.Now, NoSync: true}), clock
}

func TestB1_ConformsOnAFakeClock(t *testing.T) {
	store, clock := openManual(t)
	storetest.LeaseStore(t, store, clock)
}

func TestB1_ConformsOnRealTime(t *testing.T) {
	storetest.LeaseStore(t, open(t, sqlite.Config{}), storetest.RealTime{})
}

func TestB1_ConformsInASynctestBubble(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, NoSync: true})
		require.NoError(t, err)
		failures := storetest.CheckLeases(context.Background(), s, storetest.RealTime{})
		require.Empty(t, failures)
		require.NoError(t, s.Close())
	})
}

func failed(failures []storetest.Failure) []string {
	var ids []string
	for _, f := range failures {
		if !slices.Contains(ids, f.Check) {
			ids = append(ids, f.Check)
		}
	}
	return ids
}

// The suite can fail: each broken store fails the checks that are about what it breaks, and no others.
func TestC_TheSuiteCanFail(t *testing.T) {
	for _, tt := range []struct {
		name string
		wrap func(stores.LeaseStore) stores.LeaseStore
		want []string
	}{
		{"C1_no_compare_and_set", storetest.NoCompareAndSet, []string{"B.2", "B.3", "B4", "B2"}},
		{"C2_epoch_always_one", storetest.EpochAlwaysOne, []string{"B.6", "B.7", "B.8", "B.9", "B.10", "B.11", "B4", "B2"}},
		{"C3_renews_for_anybody", storetest.RenewsForAnybody, []string{"B.5", "B.6", "B4"}},
		{"forgets_lineages", storetest.ForgetsLineages, []string{"B.lineage"}},
		{"K1_forgets_its_deployment", storetest.ForgetsItsDeployment, []string{"K1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store, clock := openManual(t)
			failures := storetest.CheckLeases(t.Context(), tt.wrap(store), clock)
			require.ElementsMatch(t, tt.want, failed(failures), "%v", failures)
		})
	}
}

func TestE_SixProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	storetest.Race(t, storetest.RaceConfig{Target: path, Store: open(t, sqlite.Config{Path: path})})
}

// The race can fail: with NoCompareAndSet in the contenders E1 must report it. A failing test cannot run
// inside a passing one, so it runs in a process of its own.
func TestE1_TheRaceCanFail(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestE_SixProcesses$")
	cmd.Env = append(os.Environ(), breakEnv+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	require.Contains(t, string(out), "6 processes were granted the lease, 0 refused")
}

func TestB2_EndsExactlyAtItsEnd(t *testing.T) {
	store, clock := openManual(t)
	key := storetest.NewKey()
	lease, err := store.Acquire(t.Context(), key, "a", time.Second)
	require.NoError(t, err)
	require.Equal(t, start.Truncate(time.Millisecond).Add(time.Second), lease.End)

	clock.Advance(time.Second - time.Millisecond)
	_, err = store.Acquire(t.Context(), key, "b", time.Second)
	require.ErrorIs(t, err, messages.ErrHeld)
	require.Equal(t, time.Millisecond, messages.AsError(err).RetryAfter)

	clock.Advance(time.Millisecond)
	lease, err = store.Acquire(t.Context(), key, "b", time.Second)
	require.NoError(t, err)
	require.Equal(t, uint64(2), lease.Epoch)
}
