package sim

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages/planted"
)

var tableFlag = flag.String("sim.table", "", "a file for the table of planted faults")

const tableHead = `# Planted faults, and how the simulation finds them

Each fault (package messages/planted) leaves one rule of the protocol out. The table says which rule of
the contract the simulation then found broken first, and after how many seeds; a few more or fewer are
needed from run to run. Written by

    go test ./drill/sim -count=1 -run '^TestEveryPlantedFaultIsFound$' -sim.table=faults.md

`

const tableTail = `
# Mutants, and how the clients find them

What the clients look at is no rule of the protocol that could be left out by its name. Each mutant is a change of the product, made by hand and
undone; the table says at which of the seeds from 0 on TestSeeds found it first, and what it said.

| mutant | seed | violated rule | first violation |
|---|---|---|---|
| a multi-event append that fails in the middle keeps what it has stored, if it shares a batch (ledgeractor/batch.go) | 0 | G2 | e7/snap-7 holds t-7f25-c1-33, which was definitely refused |
| a drain does not commit the writes that were queued before it (ledgeractor/actor.go) | 0 | H1 | t-af14-c1-33 waited when the handoff of epoch 1 began, and was answered fenced lease-released |
| the last seq falls to 0 after a transaction without events (ledgeractor/actor.go) | 0 | Q4 | call at n0#1 was answered from e1/0 to a client that had seen e1/13 |
| no renewals are sent while a forget deletes (actors/serve.go) | 15 | S6 | epoch 24 was granted to n0#1 17.757262749s after the floor was set to epoch 23, while n2#1 was still deleting its copies |
| what a caller has seen is compared with the newest seq, and not with what the epochs began with (actors/do.go) | 2 | H2 | append at n1#2 was answered from e3/80 to a client that had seen e2/77, although epoch 3 began without that |
`

// most is how many seeds a planted fault may take.
const most = 500

// TestEveryPlantedFaultIsFound is the proof that the simulation can fail: each rule of the protocol
// that is left out is missed, by a rule of the contract. Under the race detector, which makes it four
// times slower and adds nothing to the proof, it searches for every sixth fault only. With -sim.table
// it writes the table to a file.
func TestEveryPlantedFaultIsFound(t *testing.T) {
	var mu sync.Mutex
	var rows []string
	t.Run("fault", func(t *testing.T) {
		faults := planted.All()
		if *plantedFlag != "" {
			set, err := planted.Parse(*plantedFlag)
			require.NoError(t, err)
			faults = slices.DeleteFunc(faults, func(f planted.Fault) bool { return !set.Has(f) })
		}
		for i, fault := range faults {
			if raceEnabled && i%6 != 0 && *plantedFlag == "" {
				continue
			}
			t.Run(fault.String(), func(t *testing.T) {
				t.Parallel()
				found := Search(t, fault, Options{Seed: *firstFlag}, most)
				require.NotZero(t, found.Seeds, "%s was not found within %d seeds", fault, most)
				v := found.Result.Violations[0]
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, fmt.Sprintf("| %s | %s | %s | %d | %s |", fault, v.Rule, found.Result.Options.Profile.Name, found.Seeds, v.Text))
			})
		}
	})
	slices.Sort(rows)
	table := "| fault | violated rule | profile | seeds needed | first violation |\n|---|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	t.Log("\n" + table)
	if *tableFlag != "" {
		require.NoError(t, os.WriteFile(*tableFlag, []byte(tableHead+table+tableTail), 0o644))
	}
}

// TestProfilesOfThePlantedFaultsAreCleanWithoutThem is the negative control: what Search takes for a
// discovery is not there in the correct protocol.
func TestProfilesOfThePlantedFaultsAreCleanWithoutThem(t *testing.T) {
	for _, fault := range planted.All() {
		names := profilesFor[fault]
		require.NotEmpty(t, names, "%s has no profile", fault)
		for _, name := range names {
			require.True(t, slices.ContainsFunc(Profiles(), func(p Profile) bool { return p.Name == name }),
				"the profile %s of %s is not one of those that TestSeeds runs without any fault", name, fault)
		}
	}
}
