package sqlite

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machineTime reads Linux's CLOCK_MONOTONIC: the clock that Go's monotonic readings, and so the windows
// of lease holders, count with. It is not ok if now is not a reading of the machine's own wall clock:
// in a testing/synctest bubble time passes as the test says.
func machineTime(now time.Time) (boot string, mono time.Duration, ok bool) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", 0, false
	}
	var wall, m unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &wall) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &m) != nil {
		return "", 0, false
	}
	if off := time.Unix(wall.Unix()).Sub(now.Round(0)); off < -time.Minute || off > time.Minute {
		return "", 0, false
	}
	return strings.TrimSpace(string(id)), time.Duration(m.Nano()), true
}
