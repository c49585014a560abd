package sim

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/messages/planted"
)

// logLines is how much of the event log of a failing seed is printed.
const logLines = 400

// Seeds simulates so many seeds, each as a parallel subtest of its own, and fails those in which a
// rule was broken: it prints what was broken, how to run that seed again, and the end of its event
// log. The flags -sim.seed, -sim.seeds, -sim.first, -sim.profile and -sim.planted override o and count.
func Seeds(t *testing.T, o Options, count int) {
	t.Helper()
	var err error
	if *plantedFlag != "" {
		if o.Planted, err = planted.Parse(*plantedFlag); err != nil {
			t.Fatal(err)
		}
	}
	if *profileFlag != "" {
		if o.Profile = ProfileNamed(*profileFlag); o.Profile.Name == "" {
			t.Fatalf("there is no profile %q", *profileFlag)
		}
	}
	first := *firstFlag
	switch {
	case *seedFlag >= 0:
		first, count = uint64(*seedFlag), 1
	case *seedsFlag > 0:
		count = *seedsFlag
	}
	var mu sync.Mutex
	var total Stats
	var simulated time.Duration
	t.Run("seeds", func(t *testing.T) {
		for i := range count {
			o := o
			o.Seed = first + uint64(i)
			t.Run(fmt.Sprint(o.Seed), func(t *testing.T) {
				t.Parallel()
				r := Run(t, o)
				Report(t, r)
				mu.Lock()
				defer mu.Unlock()
				simulated += r.Simulated
				total.add(r.Stats)
			})
		}
	})
	t.Logf("%d seeds, %v simulated: %d writes acknowledged, %d of them lost as declared (%d of these by outages), %d refused, %d unknown; %d reads, %d grants, %d snapshots, %d crashes, %d freezes",
		count, simulated.Round(time.Second), total.Acked, total.Lost, total.Away, total.Refused, total.Unknown, total.Reads, total.Grants, total.Snapshots, total.Crashes, total.Freezes)
}

func (s *Stats) add(o Stats) {
	s.Acked += o.Acked
	s.Lost += o.Lost
	s.Away += o.Away
	s.Outages += o.Outages
	s.Refused += o.Refused
	s.Unknown += o.Unknown
	s.Reads += o.Reads
	s.Grants += o.Grants
	s.Opens += o.Opens
	s.Snapshots += o.Snapshots
	s.Crashes += o.Crashes
	s.Freezes += o.Freezes
}

// Report logs the counts of a simulation and fails t if a rule was broken.
func Report(t testing.TB, r Result) {
	t.Helper()
	if r.OK() {
		t.Log(r)
		return
	}
	for i, v := range r.Violations {
		if i == 20 {
			t.Logf("… and %d more", len(r.Violations)-i)
			break
		}
		t.Error(v)
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	again := fmt.Sprintf("go test -count=1 -run '^%s$' -sim.seed=%d", name, r.Options.Seed)
	if r.Options.Profile.Name != "" {
		again += " -sim.profile=" + r.Options.Profile.Name
	}
	if r.Options.Planted != 0 {
		again += " -sim.planted=" + r.Options.Planted.String()
	}
	t.Logf("%v\nevent log (simulated seconds), its last %d lines of %d:\n%s\nrun it again (the schedule of faults is the same; see the package comment for what may differ):\n  %s",
		r, min(logLines, len(r.Log)), len(r.Log), strings.Join(r.Log[max(0, len(r.Log)-logLines):], "\n"), again)
}
