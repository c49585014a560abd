package sqlite

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machineClock is Linux's CLOCK_MONOTONIC: the clock that Go's monotonic readings, and so the windows of lease
// holders, count with. It stands while the machine is suspended, as these windows do; CLOCK_BOOTTIME goes on, and
// would end a lease while its holder still has a window. The id is that of the boot and of the time namespace, which
// has an offset of its own. It is not ok if now is not a reading of the machine's own wall clock: in a
// testing/synctest bubble time passes as the test says.
func machineClock(now time.Time) (id string, mono func() time.Duration, ok bool) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", nil, false
	}
	var wall, m unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &wall) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &m) != nil {
		return "", nil, false
	}
	if off := time.Unix(wall.Unix()).Sub(now.Round(0)); off < -time.Minute || off > time.Minute {
		return "", nil, false
	}
	namespace, err := os.Readlink("/proc/self/ns/time")
	if err != nil { // before Linux 5.6 there is but one
		namespace = ""
	}
	return "boot " + strings.TrimSpace(string(boot)) + " " + namespace, func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it worked above; 0 would only be late
		return time.Duration(t.Nano())
	}, true
}
