package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// clock is the time of the store. It has no state in the process: every process computes it from one note in the
// file, which says at which reading of a clock that they all share the time of the store was what. So
// two processes never disagree about it, however long one of them was idle, stopped or suspended, and whatever
// became of the wall clock meanwhile: the one that grants a lease and the one that granted the lease before
// it count on one clock. It is read under the write lock of the file, so every reading is ordered with every grant.
type clock struct {
	// wall is asked once: for the time at which the store begins to count after a boot.
	wall func() time.Time
	// id names the clock that mono reads. Readings of clocks with different ids have nothing to do with each other.
	id string
	// mono reads a clock that nobody can set. The windows of lease holders must not run slower than it.
	mono func() time.Duration
}

// process is the clock of a process that shares none with others: it counts from the start of this one.
var process = struct {
	id    string
	start time.Time
}{"process " + rand.Text(), time.Now()}

// processClock counts with the differences of now, which are monotonic where the readings are (time.Now).
func processClock(now func() time.Time) clock {
	return clock{wall: now, id: process.id, mono: func() time.Duration { return now().Sub(process.start) }}
}

// defaultClock is the machine's, where there is one that its processes share.
func defaultClock() clock {
	if id, mono, ok := machineClock(time.Now()); ok {
		return clock{wall: time.Now, id: id, mono: mono}
	}
	return processClock(time.Now)
}

// note is the row of the file that its users compute the time of the store from: at a reading of the clock it was at.
type note struct {
	clock       string
	reading, at time.Duration
	newest      int64 // the newest time, in ms since 1970, at which anything was granted
}

func loadNote(ctx context.Context, conn *sql.Conn) (n note, err error) {
	err = conn.QueryRowContext(ctx, `SELECT clock_id, clock_ns, at_ns, newest_ms FROM store`).Scan(&n.clock, &n.reading, &n.at, &n.newest)
	return n, err
}

// anchor joins the users of the file, when a store is opened. The first one after a boot takes the wall clock for the
// time of the store (or the newest time in the file, if the wall clock is behind it), and notes where its clock stands.
// All others must have the same clock. One that has another is refused while anybody uses the file: of two
// clocks nobody knows which is ahead, and whoever is ahead grants leases that are not over for the other.
// users is a file that every user keeps locked, so that the kernel knows whether there is one.
func (c *clock) anchor(ctx context.Context, conn *sql.Conn, users *os.File) error {
	n, err := loadNote(ctx, conn)
	if err != nil {
		return err
	}
	if n.clock != c.id {
		err := flock(users, syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return otherClock(err)
		}
		if err != nil {
			return err
		}
		at := max(time.Duration(c.wall().UnixNano()), time.Duration(n.newest)*time.Millisecond)
		_, err = conn.ExecContext(ctx, `UPDATE store SET clock_id = ?, clock_ns = ?, at_ns = ?`, c.id, int64(c.mono()), int64(at))
		if err != nil {
			return errors.Join(err, flock(users, syscall.LOCK_UN))
		}
	}
	return flock(users, syscall.LOCK_SH|syscall.LOCK_NB)
}

// read returns the time of the store in ms since 1970. It is never behind the newest time in the file.
func (c *clock) read(ctx context.Context, conn *sql.Conn) (int64, error) {
	n, err := loadNote(ctx, conn)
	if err != nil {
		return 0, err
	}
	if n.clock != c.id { // somebody removed the file of the users
		return 0, otherClock(nil)
	}
	return max((n.at + c.mono() - n.reading).Milliseconds(), n.newest), nil
}

func otherClock(err error) error {
	return &messages.Error{Code: messages.CodeUnavailable, Message: "another process uses the lease file, and counts time with another clock: " +
		"on this system, or in another time namespace, only one process can use the file", Err: err}
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
