package nats_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestB1_ConformsOnRealTime(t *testing.T) {
	on(t, func(t *testing.T, k kind) {
		storetest.LeaseStore(t, openLeases(t, k.config(t)), storetest.RealTime{})
	})
}

// The suite can fail: each broken store fails the checks that are about what it breaks, and no others.
func TestC_TheSuiteCanFail(t *testing.T) {
	store := openLeases(t, kinds[0].config(t))
	for _, tt := range []struct {
		name string
		wrap func(stores.LeaseStore) stores.LeaseStore
		want []string
	}{
		{"C1_no_compare_and_set", storetest.NoCompareAndSet, []string{"B.2", "B.3", "B4"}},
		{"C3_renews_for_anybody", storetest.RenewsForAnybody, []string{"B.5", "B.6", "B4"}},
		{"forgets_lineages", storetest.ForgetsLineages, []string{"B.lineage"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var failed []string
			failures := storetest.CheckLeases(t.Context(), tt.wrap(store), storetest.RealTime{})
			for _, f := range failures {
				if !slices.Contains(failed, f.Check) {
					failed = append(failed, f.Check)
				}
			}
			require.ElementsMatch(t, tt.want, failed, "%v", failures)
		})
	}
}

func TestE_SixProcesses(t *testing.T) {
	on(t, func(t *testing.T, k kind) {
		cfg := k.config(t)
		storetest.Race(t, storetest.RaceConfig{Target: fmt.Sprintf("%d %s %s", k.replicas, cfg.Cluster, cfg.URL), Store: openLeases(t, cfg)})
	})
}

// The race can fail: with NoCompareAndSet in the contenders E1 must report it. A failing test cannot run
// inside a passing one, so it runs in a process of its own, with servers of its own.
func TestE1_TheRaceCanFail(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestE_SixProcesses$/^R1$")
	cmd.Env = append(os.Environ(), breakEnv+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	require.Contains(t, string(out), "6 processes were granted the lease, 0 refused")
}
