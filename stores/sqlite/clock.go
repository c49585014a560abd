package sqlite

import (
	"context"
	"database/sql"
	"time"
)

// clock turns readings of a node's clock into the time of the store. It is used under the write lock
// of the file only, so every reading is ordered with every grant.
type clock struct {
	now func() time.Time
	// machine reads a clock that all processes of the machine share and nobody can set, and the id of
	// the boot that it counts from; nil, or not ok: there is none beside now.
	machine func(now time.Time) (boot string, mono time.Duration, ok bool)

	last  time.Time     // the newest reading of now
	store time.Duration // the time of the store then, since 1970
}

// anchor finds the time of the store when it is opened. The first process of a boot takes the wall
// clock, and notes beside it where the machine's monotonic clock stood; those that come later count
// from that note. So a wall clock that is set forward, or that went on while the machine was suspended
// and the holders' own clocks stood, ends no lease before its holder knows. (After a boot there are no holders.)
// Where both clocks can be read the earlier counts: the only safe mistake is to be late.
func (c *clock) anchor(ctx context.Context, conn *sql.Conn) error {
	var newest, bootMono, bootAt int64
	var bootID string
	err := conn.QueryRowContext(ctx, `SELECT newest_ms, boot_id, boot_ns, boot_at_ns FROM store`).Scan(&newest, &bootID, &bootMono, &bootAt)
	if err != nil {
		return err
	}
	c.last = c.now()
	c.store = time.Duration(c.last.UnixNano())
	floor := time.Duration(newest) * time.Millisecond
	if c.machine == nil {
		c.store = max(c.store, floor)
		return nil
	}
	boot, mono, ok := c.machine(c.last)
	if ok && boot == bootID {
		c.store = min(c.store, time.Duration(bootAt)+mono-time.Duration(bootMono))
	}
	c.store = max(c.store, floor)
	if ok && boot != bootID {
		_, err = conn.ExecContext(ctx, `UPDATE store SET boot_id = ?, boot_ns = ?, boot_at_ns = ?`, boot, int64(mono), int64(c.store))
	}
	return err
}

// read returns the time of the store in ms since 1970. It advances with the differences of now, which are
// monotonic where the readings are (time.Now), so a step of the wall clock does not reach it. And it
// never lags behind the newest time in the file, so all processes share one clock that never goes
// back. That is safe: the file's newest time was the time of the store at some earlier instant.
func (c *clock) read(ctx context.Context, conn *sql.Conn) (int64, error) {
	var newest int64
	if err := conn.QueryRowContext(ctx, `SELECT newest_ms FROM store`).Scan(&newest); err != nil {
		return 0, err
	}
	t := c.now()
	if passed := t.Sub(c.last); passed > 0 {
		c.store += passed
	}
	c.last = t
	c.store = max(c.store, time.Duration(newest)*time.Millisecond)
	return c.store.Milliseconds(), nil
}
