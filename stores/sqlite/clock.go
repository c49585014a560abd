package sqlite

import (
	"context"
	"database/sql"
	"time"
)

// clock turns readings of a node's clock into the time of the store, in ms since 1970. It is used
// under the write lock of the file only, so every reading is ordered with every grant.
type clock struct {
	now func() time.Time

	last   time.Time     // the newest reading of now
	store  time.Duration // the time of the store at last; zero: not read yet
	anchor bool
}

// read returns the time of the store. It advances with the differences of now, which are monotonic
// where the readings are (time.Now), so a step of the wall clock does not reach it. And it never lags
// behind the newest time in the file, so all processes share one clock that never goes back. That is
// safe: the file's newest time was the time of the store at some earlier instant, so this reading
// never runs ahead of a clock that nobody stepped.
func (c *clock) read(ctx context.Context, conn *sql.Conn) (int64, error) {
	var newest int64
	if err := conn.QueryRowContext(ctx, `SELECT newest_ms FROM store`).Scan(&newest); err != nil {
		return 0, err
	}
	t := c.now()
	if !c.anchor {
		c.store, c.anchor = time.Duration(t.UnixNano()), true
	} else if passed := t.Sub(c.last); passed > 0 {
		c.store += passed
	}
	c.last = t
	// The floor of the nanoseconds, so that a lease ends at its end and not a part of a ms before it.
	c.store = max(c.store, time.Duration(newest)*time.Millisecond)
	return c.store.Milliseconds(), nil
}
