package sim

import "flag"

var seedFlag = flag.Uint64("sim.seed", 0, "the seed that a simulation runs alone; 0: all of them")
