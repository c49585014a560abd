package run

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/drill/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestScheduleIsRepeatable(t *testing.T) {
	for seed := range uint64(20) {
		require.Equal(t, Schedule(seed, 5, time.Minute, nil), Schedule(seed, 5, time.Minute, nil))
	}
	require.NotEqual(t, Schedule(1, 5, time.Minute, nil), Schedule(2, 5, time.Minute, nil))
}

func TestScheduleFitsAndHoldsEveryStep(t *testing.T) {
	for seed := range uint64(50) {
		for _, duration := range []time.Duration{0, time.Second, 10 * time.Second, 18 * time.Second, 2 * time.Minute} {
			plan := Schedule(seed, 3, duration, nil)
			require.NotEmpty(t, plan)
			var cost time.Duration
			hit := map[Step]bool{}
			for _, p := range plan {
				require.Contains(t, costs, p.Step)
				require.Less(t, p.Tenant, 3)
				require.GreaterOrEqual(t, p.Tenant, 0)
				cost += p.Step.Cost()
				hit[p.Step] = true
			}
			require.True(t, hit[Handoff], "without one, I5 has nothing to say")
			require.LessOrEqual(t, cost, max(duration, Handoff.Cost()))
			if duration >= 10*time.Second {
				require.True(t, hit[Freeze] && hit[Kill])
			}
			if duration >= 18*time.Second {
				for _, s := range round {
					require.True(t, hit[s], "%s", s)
				}
			}
		}
	}
}

// The default duration holds every step that there is for it.
func TestScheduleOfTheDefaultDurationHoldsEveryStep(t *testing.T) {
	for _, server := range []bool{false, true} {
		candidates := round
		if server {
			candidates = serverRound
		}
		for s := range costs {
			require.Equal(t, s != Watch && (server || !s.needsServer()), slices.Contains(candidates, s), "%s with a server: %v", s, server)
		}
		for seed := range uint64(50) {
			hit := map[Step]bool{}
			for _, p := range Schedule(seed, 3, DefaultDuration(server), candidates) {
				hit[p.Step] = true
			}
			for _, s := range candidates {
				require.True(t, hit[s], "%s", s)
			}
		}
	}
}

func TestScheduleOfGivenStepsHoldsEachOfThem(t *testing.T) {
	for _, b := range Breaks {
		var duration time.Duration
		for _, s := range b.Steps {
			duration += s.Cost()
		}
		var steps []Step
		for _, p := range Schedule(7, 2, duration, b.Steps) {
			steps = append(steps, p.Step)
		}
		require.ElementsMatch(t, b.Steps, steps, b.Name)
	}
}

func TestEveryBreakNamesWhatItBreaks(t *testing.T) {
	names := BreakNames()
	for _, wanted := range []string{"no-compare-and-set", "no-self-fence", "newest-object", "ack-before-commit", "retention-no-renewal", "manifest-before-image"} {
		require.Contains(t, names, wanted)
	}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(names))), len(names))
	for _, b := range Breaks {
		require.NotEmpty(t, b.Text)
		require.NotEmpty(t, b.Steps)
		require.NotEmpty(t, b.Finds)
		require.True(t, b.Planted != 0 || b.LeaseStore != "", "%s breaks nothing", b.Name)
	}
}

func TestFindingCountsOnlyWhatTheBrokenPartBreaks(t *testing.T) {
	v := verify.Verdict{Info: verify.Info{Break: "no-self-fence"}, Invariants: []verify.Invariant{{Name: "I3"}, {Name: "I4", Broken: []string{"S1 x"}}}}
	require.False(t, IsFound(v), "I4 is not what it breaks")
	require.Contains(t, Finding(v), "NOT found")
	v.Invariants[0].Broken = []string{"I3 y"}
	require.True(t, IsFound(v))
	require.Contains(t, Finding(v), "I3 y")
	v.Break = ""
	require.False(t, IsFound(v))
}

func TestOptionsAreValidated(t *testing.T) {
	good := Options{Replicas: 4, Tenants: 2, Writers: 1, Dir: filepath.Join(t.TempDir(), "absent"), Exe: []string{"x"}, Duration: time.Second, Only: []Step{Kill}}
	require.NoError(t, good.Validate())
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "file"), nil, 0o600))
	for name, change := range map[string]func(*Options){
		"replicas":          func(o *Options) { o.Replicas = 1 },
		"tenants":           func(o *Options) { o.Tenants = 0 },
		"writers":           func(o *Options) { o.Writers = 0 },
		"pace":              func(o *Options) { o.Pace = -1 },
		"duration":          func(o *Options) { o.Duration = -1 },
		"no folder":         func(o *Options) { o.Dir = "" },
		"full":              func(o *Options) { o.Dir = full },
		"a file":            func(o *Options) { o.Dir = filepath.Join(full, "file") },
		"no exe":            func(o *Options) { o.Exe = nil },
		"break":             func(o *Options) { o.Break = "no-such-part" },
		"step":              func(o *Options) { o.Only = []Step{"dance"} },
		"no server to kill": func(o *Options) { o.Only = []Step{ServerKill} },
		"no server to cut":  func(o *Options) { o.Only = []Step{Cut} },
		"leases":            func(o *Options) { o.Leases = "dir" },
		"durable":           func(o *Options) { o.Durable = "postgres" },
		"no command":        func(o *Options) { o.Leases = "nats" },
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			change(&bad)
			require.Error(t, bad.Validate())
			_, err := Run(t.Context(), bad)
			require.Error(t, err, "and nothing is started")
		})
	}
}

func TestTenantsAreTheSameInEveryRun(t *testing.T) {
	a, err := keys(3)
	require.NoError(t, err)
	b, err := keys(4)
	require.NoError(t, err)
	require.Equal(t, a, b[:3])
	for _, key := range b {
		require.NoError(t, key.Validate())
	}
}
