package record

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the system's monotonic clock in ns. It counts from the same moment in every process of
// this machine.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("the system has no monotonic clock: " + err.Error()) // POSIX has it everywhere the drill runs
	}
	return t.Nano()
}

// Since returns the time since a reading of Now.
func Since(at int64) time.Duration { return time.Duration(Now() - at) }
