package sim

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/messages"
)

// Stats counts what happened.
type Stats struct {
	Acked, Refused, Unknown int // writes
	Lost                    int // acknowledged, after the last snapshot of a crashed or abandoned epoch: the declared loss
	Reads                   int
	Grants, Opens           int
	Snapshots               int
	Crashes, Freezes        int
	Outages                 int                   // of the engine
	Away                    int                   // of Lost: by owners that only were away from a store, and neither crashed nor stopped
	Errors                  map[messages.Code]int // that clients saw
}

// Result is the outcome of one simulation.
type Result struct {
	Options    Options
	Simulated  time.Duration
	Violations []history.Violation
	Stats      Stats
	// Log is the newest part of the event log: a line per thing that happened, with the simulated
	// second at its beginning.
	Log []string
	// History is what was judged.
	History *history.History
}

// OK reports whether no rule was broken.
func (r Result) OK() bool { return len(r.Violations) == 0 }

// String returns one line: the seed, the profile, the counts.
func (r Result) String() string {
	s := r.Stats
	codes := make([]string, 0, len(s.Errors))
	for _, code := range slices.Sorted(maps.Keys(s.Errors)) {
		codes = append(codes, fmt.Sprintf("%s %d", code, s.Errors[code]))
	}
	return fmt.Sprintf("seed %d %s: %d acknowledged (%d lost as declared, %d of them by outages), %d refused, %d unknown, %d reads, %d grants, %d snapshots, %d crashes, %d freezes; %s",
		r.Options.Seed, r.Options.Profile.Name, s.Acked, s.Lost, s.Away, s.Refused, s.Unknown, s.Reads, s.Grants, s.Snapshots, s.Crashes, s.Freezes, strings.Join(codes, ", "))
}

// Run simulates one fleet in a testing/synctest bubble and returns what was found. It fails t only
// if the simulation itself could not run; Report fails it for what was found.
func Run(t *testing.T, o Options) Result {
	t.Helper()
	o = o.withDefaults()
	root := tempDir(t)
	var result Result
	synctest.Test(t, func(t *testing.T) {
		result = simulate(t, o, root)
	})
	return result
}

// tempDir returns a folder in memory where there is one: the files need not survive anything.
func tempDir(t *testing.T) string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err == nil && info.IsDir() {
		if root, err := os.MkdirTemp(memory, "leasehold-sim-"); err == nil {
			t.Cleanup(func() { _ = os.RemoveAll(root) })
			return root
		}
	}
	return t.TempDir()
}

func simulate(t *testing.T, o Options, root string) Result {
	w, err := newWorld(o, root)
	if err != nil {
		t.Fatalf("the world cannot be made: %v", err)
	}
	w.stats.Errors = map[messages.Code]int{}
	for i := range o.Nodes {
		w.nodes = append(w.nodes, newNode(w, fmt.Sprint("n", i)))
	}
	if o.Profile.Aged {
		w.age(t)
	}
	for _, n := range w.nodes {
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.Duration)
	defer cancel()
	var running sync.WaitGroup
	for _, key := range w.keys {
		for i := range 2 {
			c := newClient(w, key, fmt.Sprint("c", i))
			running.Go(func() { c.run(ctx) })
		}
		if o.Workload != nil {
			c := newClient(w, key, "workload")
			running.Go(func() { c.runWorkload(ctx) })
		}
	}
	w.chaos(ctx, &running)
	<-ctx.Done()
	for _, n := range w.nodes {
		n.heal()
	}
	running.Wait()
	w.finale()
	if err := w.close(); err != nil {
		t.Errorf("close the stores: %v", err)
	}
	// What clients and successors suffered comes before what only an observer sees.
	w.checkTails()
	w.checkForgets()
	w.checkQueued()
	violations := append(w.history.Check(context.Background()), w.extra...)
	w.stats.Lost = w.lost()
	return Result{Options: o, Simulated: time.Since(w.begun), Violations: violations, Stats: w.stats, Log: w.log, History: &w.history}
}

// lost counts the acknowledged writes that are not in the final state.
func (w *world) lost() int {
	type id struct {
		key messages.Key
		id  string
	}
	there, lost := map[id]bool{}, map[id]bool{}
	for key, state := range w.history.Final {
		for _, r := range state.Rows {
			there[id{key, r.ID}] = true
		}
	}
	for _, x := range w.history.Writes {
		if x.Outcome == history.Acked && !there[id{x.Key, x.ID}] {
			lost[id{x.Key, x.ID}] = true
		}
	}
	return len(lost)
}
