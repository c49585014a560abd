package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages/planted"
)

// most is how many seeds a planted fault may take.
const most = 500

// TestEveryPlantedFaultIsFound is the proof that the simulation can fail: each rule of the protocol
// that is left out is missed, by a rule of the contract.
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
		for _, fault := range faults {
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
	t.Logf("\n| fault | violated rule | profile | seeds needed | first violation |\n|---|---|---|---|---|\n%s", strings.Join(rows, "\n"))
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
