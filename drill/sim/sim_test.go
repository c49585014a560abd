package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSeeds is the main defence of the protocol: a fleet's life under every profile, judged by the
// rules I1 to I6, D, G, S and W of the contract. 200 seeds of 6 minutes are 20 simulated hours, not
// counting what comes after the faults have ended.
func TestSeeds(t *testing.T) {
	count := 200
	if testing.Short() {
		count = len(Profiles())
	}
	Seeds(t, Options{}, count)
}

// TestScheduleBelongsToTheSeed: two runs of one seed are struck by the same faults at the same time.
func TestScheduleBelongsToTheSeed(t *testing.T) {
	faults := func(r Result) []string {
		return slices.DeleteFunc(slices.Clone(r.Log), func(line string) bool {
			return !strings.Contains(line, "outage for") && !strings.Contains(line, "clock jumps") && !strings.Contains(line, "is killed")
		})
	}
	o := Options{Seed: 5, Duration: 2 * time.Minute, Profile: ProfileNamed("clocks")}
	one, two := Run(t, o), Run(t, o)
	require.NotEmpty(t, faults(one))
	require.Equal(t, faults(one), faults(two))
	o.Seed++
	require.NotEqual(t, faults(one), faults(Run(t, o)))
}

// TestFirstDifference measures how far two runs of one seed go the same way, line by line.
func TestFirstDifference(t *testing.T) {
	for seed := range uint64(len(Profiles())) {
		o := Options{Seed: seed, Duration: 3 * time.Minute}
		one, two := Run(t, o), Run(t, o)
		same, both := 0, map[string]int{}
		for _, line := range one.Log {
			both[line]++
		}
		for _, line := range two.Log {
			if both[line] > 0 {
				both[line]--
				same++
			}
		}
		t.Logf("seed %d %s: %d of %d lines are the same", seed, one.Options.Profile.Name, same, len(two.Log))
		require.NotZero(t, same)
	}
}
