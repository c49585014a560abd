package s3_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest"
)

// breakEnv plants NoCompareAndSet into the contenders of a race.
const breakEnv = "LEASEHOLD_S3_TEST_BREAK"

func TestF_Conforms(t *testing.T) {
	cfg := config(s3test.Start(t).Endpoint)
	cfg.Prefix = "some/where/"
	storetest.DurableStore(t, open(t, cfg).Objects())
}

func TestF_AnObjectOf8TB(t *testing.T) {
	server := s3test.Start(t)
	storetest.Oversized(t, open(t, config(server.Endpoint)).Objects(), func(t *testing.T, key string, size int64) {
		require.NoError(t, os.Truncate(server.Path("objects/"+key), size)) // a sparse file
	})
}

func TestB1_ConformsOnRealTime(t *testing.T) {
	server := s3test.Start(t)
	t.Run("default", func(t *testing.T) {
		cfg := config(server.Endpoint)
		cfg.Prefix = "deploy-1/"
		storetest.LeaseStore(t, openLeases(t, cfg, s3.LeaseConfig{}), storetest.RealTime{})
	})
	t.Run("without the server's clock", func(t *testing.T) {
		leases := openLeases(t, config(server.Endpoint), s3.LeaseConfig{ClockSkew: -1})
		require.Empty(t, storetest.CheckLeases(t.Context(), leases, storetest.RealTime{}))
	})
}

// The suite can fail on this store as on any.
func TestC_TheSuiteCanFail(t *testing.T) {
	leases := openLeases(t, config(s3test.Start(t).Endpoint), s3.LeaseConfig{})
	for _, tt := range []struct {
		name string
		wrap func(stores.LeaseStore) stores.LeaseStore
		want []string
	}{
		{"C1_no_compare_and_set", storetest.NoCompareAndSet, []string{"B.2", "B.3", "B4"}},
		{"C2_epoch_always_one", storetest.EpochAlwaysOne, []string{"B.6", "B.10"}},
		{"C3_renews_for_anybody", storetest.RenewsForAnybody, []string{"B.5", "B.6"}},
		{"forgets_lineages", storetest.ForgetsLineages, []string{"B.lineage"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failures := storetest.CheckLeases(t.Context(), tt.wrap(leases), storetest.RealTime{})
			for _, id := range tt.want {
				require.True(t, slices.ContainsFunc(failures, func(f storetest.Failure) bool { return f.Check == id }), "%s: %v", id, failures)
			}
		})
	}
}

func TestE_SixProcesses(t *testing.T) {
	r := raceTarget{Endpoint: s3test.Start(t).Endpoint, Break: os.Getenv(breakEnv) != ""}
	target, err := json.Marshal(r)
	require.NoError(t, err)
	leases := openLeases(t, config(r.Endpoint), s3.LeaseConfig{})
	storetest.Race(t, storetest.RaceConfig{Target: string(target), Store: leases, TTL: 5 * time.Second})
}

// The race can fail: with NoCompareAndSet in the contenders E1 must report it. A failing test cannot run
// inside a passing one, so it runs in a process of its own.
func TestE1_TheRaceCanFail(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestE_SixProcesses$")
	cmd.Env = append(os.Environ(), breakEnv+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	require.Regexp(t, `[2-6] processes were granted the lease`, string(out))
}
