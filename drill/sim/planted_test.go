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
		require.NoError(t, os.WriteFile(*tableFlag, []byte(tableHead+table), 0o644))
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
