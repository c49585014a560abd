package run_test

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/drill/run"
)

// The same seed gives the same steps, on any machine.
func ExampleSchedule() {
	for _, step := range run.Schedule(1, 2, 6*time.Second, nil) {
		fmt.Println(step)
	}
	// Output:
	// freeze t1 +277ms
	// handoff t2 +292ms
	// handoff t2 +334ms
	// handoff t1 +383ms
}
