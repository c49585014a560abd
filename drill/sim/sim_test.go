package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSeeds is the main defence of the protocol: a fleet's life under every profile, judged by the
// rules I1 to I6, D, G, S and W of the contract. 200 seeds of 6 minutes are 20 simulated hours, not
// counting what comes after the faults have ended. Under the race detector there are fewer.
func TestSeeds(t *testing.T) {
	count := 200
	switch {
	case testing.Short():
		count = len(Profiles())
	case raceEnabled: // four times slower: it looks for races, and the other build for the rest
		count = 4 * len(Profiles())
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

// TestHowRepeatableASeedIs measures how much of two runs of one seed is the same: the share of the
// lines of the event log, to the millisecond. It is a measurement; it fails only if nothing is.
func TestHowRepeatableASeedIs(t *testing.T) {
	for seed := range uint64(len(Profiles())) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			o := Options{Seed: seed, Duration: 2 * time.Minute}
			one, two := Run(t, o), Run(t, o)
			counts := map[string]int{}
			for _, line := range one.Log {
				counts[line]++
			}
			same := 0
			for _, line := range two.Log {
				if counts[line] > 0 {
					counts[line]--
					same++
				}
			}
			t.Logf("%s: %d of %d lines are the same (%d %%)", one.Options.Profile.Name, same, len(two.Log), 100*same/len(two.Log))
			require.NotZero(t, same)
		})
	}
}
