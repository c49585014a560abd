package ledgeractor

import (
	"context"
	"database/sql/driver"
	"os"

	"github.com/leasehold/leasehold/messages"
)

// SQLite begins its write-ahead log anew only when everything in it has been copied into the database, and at that moment
// nobody reads from it. Reads that overlap leave no such moment, and the log grows with every write. So when it is over its
// bound no read begins before those that run have ended; they are given some time, and are ended if they need more, or if the
// log grows on.

const (
	// maxWAL is the size of the log, in bytes, at which reads begin to wait.
	maxWAL = 16 << 20
	// hardWAL is the size at which those that run are ended at once.
	hardWAL = 4 * maxWAL
	// walPatience is the part of the query timeout that reads have to end by themselves.
	walPatience = 4
)

// boundWAL looks at the size of the log. It is called after each commit.
func (a *Actor) boundWAL() {
	info, err := os.Stat(a.cfg.Path + "-wal")
	switch {
	case err != nil || info.Size() <= maxWAL: // without a log there is nothing to bound
		return
	case a.pausing == 0:
		a.pauses++
		a.pausing = a.pauses
		if a.shared.readers.pause() {
			a.checkpoint()
			return
		}
		a.self.After(a.cfg.Limits.QueryTimeout/walPatience, evictReaders{pause: a.pausing})
	case info.Size() > hardWAL:
		a.shared.readers.evict()
	}
}

// evictReaders ends the reads that have had their time. What still reads after that is a copy of the whole ledger, which
// may take long: then reads go on, and the next commit tries again.
func (a *Actor) evictReaders(m evictReaders) {
	switch {
	case m.pause != a.pausing:
	case m.again:
		a.pausing = 0
		a.shared.readers.resume()
	default:
		a.shared.readers.evict()
		a.self.After(a.cfg.Limits.QueryTimeout/walPatience, evictReaders{pause: a.pausing, again: true})
	}
}

// checkpoint empties the log, and lets reads begin again.
func (a *Actor) checkpoint() {
	a.pausing = 0
	defer a.shared.readers.resume()
	if a.guard == nil {
		return
	}
	if err := a.guard.checkpoint(); err != nil {
		a.cfg.Log.Warn("the write-ahead log cannot be emptied", "key", a.cfg.Key.String(), "epoch", a.cfg.Epoch, "code", messages.CodeOf(err))
	}
}

// readersAreGone empties the log if it waited for that.
func (a *Actor) readersAreGone() {
	if a.pausing == 0 || !a.shared.readers.pause() {
		return
	}
	a.flush()
	if a.pausing != 0 {
		a.checkpoint()
	}
}

// checkpoint copies the whole log into the database and truncates it. There is no transaction open.
func (g *guard) checkpoint() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = true
	defer func() { g.own = false }()
	return g.failed(eachRow(context.Background(), g.raw, "PRAGMA wal_checkpoint(TRUNCATE)", nil, func([]driver.Value) error { return nil }))
}
