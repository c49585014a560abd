package sim

import "flag"

// The flags of a test binary that imports this package.
var (
	seedFlag    = flag.Int64("sim.seed", -1, "run this seed of the simulation alone")
	seedsFlag   = flag.Int("sim.seeds", 0, "how many seeds to simulate; 0: what the test asks for")
	firstFlag   = flag.Uint64("sim.first", 0, "the first seed")
	profileFlag = flag.String("sim.profile", "", "the profile of every seed (see Profiles); empty: by seed")
	plantedFlag = flag.String("sim.planted", "", "planted faults, by name, joined by commas")
)
