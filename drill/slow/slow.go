// Package slow tells whether a machine was too slow for a drill: whether its timers were late, or its disk.
//
// The processes of a drill are held to bounds of time. On a machine that is busy with other things they miss some that they would keep
// elsewhere, and the drill must not call that a fault of theirs. So it watches itself meanwhile: a timer of its own, and a
// small file that it writes and syncs.
package slow

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ErrTooSlow says that a drill could not judge: the machine was too slow for it.
var ErrTooSlow = errors.New("could not judge: the machine was too slow")

// every is the pause between two looks.
const every = 25 * time.Millisecond

// diskEvery is how many looks there are for one at the disk.
const diskEvery = 20

// Report is how late the machine was.
type Report struct {
	// Timer is the longest time that a timer was late, and Disk the longest time that a small file took to be on the disk, in ns.
	Timer time.Duration `json:"timer_ns"`
	Disk  time.Duration `json:"disk_ns"`
}

// TooSlow reports whether anything took longer than a bound.
func (r Report) TooSlow(bound time.Duration) bool { return max(r.Timer, r.Disk) > bound }

// String says how late it was.
func (r Report) String() string {
	return fmt.Sprintf("a timer of the drill was up to %v late, a small write to the disk took up to %v", r.Timer.Round(time.Millisecond), r.Disk.Round(time.Millisecond))
}

// Meter watches until it is stopped.
type Meter struct {
	stop, done chan struct{}
	end        sync.Once
	report     Report // read after done
}

// Start begins to watch. dir is a folder on the disk in question.
func Start(dir string) *Meter {
	return start(time.NewTimer, func() time.Duration { return write(filepath.Join(dir, "slow-probe")) })
}

func start(timer func(time.Duration) *time.Timer, disk func() time.Duration) *Meter {
	m := &Meter{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for i := 0; ; i++ {
			begun := time.Now()
			t := timer(every)
			select {
			case <-t.C:
			case <-m.stop:
				t.Stop()
			}
			// Also what is cut short counts: the last timer may be the one that is late.
			m.report.Timer = max(m.report.Timer, time.Since(begun)-every)
			select {
			case <-m.stop:
				return
			default:
			}
			if i%diskEvery == 0 {
				m.report.Disk = max(m.report.Disk, disk())
			}
		}
	}()
	return m
}

// Stop ends it and returns what it has seen. It may be called again.
func (m *Meter) Stop() Report {
	m.end.Do(func() { close(m.stop) })
	<-m.done
	return m.report
}

// Excuse ends the watch and returns err, which says that something did not happen in its time, with ErrTooSlow if the machine was later
// than a bound.
func (m *Meter) Excuse(err error, bound time.Duration) error {
	if r := m.Stop(); r.TooSlow(bound) {
		return fmt.Errorf("%w (%v): %w", ErrTooSlow, r, err)
	}
	return err
}

// write writes a small file, syncs it and takes it away, and returns how long that took. A disk that refuses it is the drill's own
// business to notice.
func write(path string) time.Duration {
	begun := time.Now()
	file, err := os.Create(path)
	if err != nil {
		return 0
	}
	_, _ = file.WriteString("probe")
	_ = file.Sync()
	_ = file.Close()
	_ = os.Remove(path)
	return time.Since(begun)
}
