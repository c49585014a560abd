package ledgeractor

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"sync"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// guard is the only way to the writing connection. Every step that anybody takes on it, from
// whatever object was handed out, goes through here: under the lock, for the transaction that is
// current, and only while the fence is open.
type guard struct {
	cfg  Config
	fail failures

	mu      sync.Mutex
	raw     *sqlite3.SQLiteConn
	auth    appAuthorizer
	own     bool // our own statement is running: the authorizer lets it pass
	opening bool // nothing can be acknowledged yet, so the fence does not matter
	cur     *Tx  // the transaction whose function is running
	open    map[io.Closer]struct{}
	wrote   bool  // the open transaction holds a change
	bytes   int64 // of what it was given to write
	image   imageSize
	lost    error // why SQLite rolled the whole transaction back by itself; nil: it did not
	refused error // what the commit hook found

	begin, commit, rollback, save, release, undo, find, insert, pages *sqlite3.SQLiteStmt
	recall, remember                                                  *sqlite3.SQLiteStmt // see once.go; nil until they are needed

	pool *sql.DB // over connections that are this guard; made when application code first runs
	conn *sql.Conn
}

// newGuard takes over a connection whose schema is in place.
func newGuard(cfg Config, raw *sqlite3.SQLiteConn, corrupt func(error)) (*guard, error) {
	g := &guard{cfg: cfg, fail: newFailures(cfg.Key, cfg.Path), raw: raw, open: make(map[io.Closer]struct{})}
	g.fail.corrupt = corrupt
	for _, s := range []struct {
		to   **sqlite3.SQLiteStmt
		text string
	}{
		{&g.begin, "BEGIN IMMEDIATE"}, {&g.commit, "COMMIT"}, {&g.rollback, "ROLLBACK"},
		{&g.save, "SAVEPOINT member"}, {&g.release, "RELEASE member"}, {&g.undo, "ROLLBACK TO member"},
		{&g.pages, "PRAGMA main.page_count"},
		{&g.find, "SELECT seq, kind, subject_id, payload FROM main.events WHERE tenant_id = ? AND idem_key = ?"},
		{&g.insert, "INSERT INTO main.events (tenant_id, ts, actor, kind, subject_id, payload, idem_key, run_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
	} {
		// Prepare bypasses the driver's statement cache: application text that reads the same must
		// never get hold of a statement that was prepared with our rights.
		stmt, err := raw.Prepare(s.text)
		if err != nil {
			return nil, g.fail.typed(err)
		}
		*s.to = stmt.(*sqlite3.SQLiteStmt)
	}
	var err error
	if g.image.pageSize, err = queryInt(context.Background(), raw, "PRAGMA main.page_size"); err != nil { // it never changes
		return nil, g.fail.typed(err)
	}
	raw.RegisterAuthorizer(func(op int, arg1, arg2, arg3 string) int {
		if g.own {
			return sqlite3.SQLITE_OK
		}
		return g.auth.check(op, arg1, arg2, arg3)
	})
	raw.RegisterCommitHook(g.mayCommit)
	_, err = g.measureImage()
	return g, err
}

// mayCommit is SQLite's commit hook: 0 lets the commit happen, anything else makes it a rollback.
// So nothing can be committed past the fence, whoever tries.
func (g *guard) mayCommit() (verdict int) {
	if g.opening || g.cfg.Planted.Has(planted.NoFenceBeforeCommit) {
		return 0
	}
	defer func() {
		if recover() != nil { // a panic must not cross C frames
			verdict, g.refused = 1, &messages.Error{Code: messages.CodeInternal, Message: "the fence panicked"}
		}
	}()
	if g.refused = g.checkFence(); g.refused != nil {
		return 1
	}
	return 0
}

// checkFence returns nil or an error with CodeFenced.
func (g *guard) checkFence() error {
	return fencedError(g.cfg.Key, g.cfg.Epoch, g.cfg.Fence.Check())
}

// step runs one of our own statements without a result.
func (g *guard) step(stmt *sqlite3.SQLiteStmt) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stepLocked(stmt, nil)
}

func (g *guard) stepLocked(stmt *sqlite3.SQLiteStmt, args []driver.NamedValue) error {
	g.own = true
	defer func() { g.own = false }()
	_, err := stmt.ExecContext(context.Background(), args)
	return g.failed(err)
}

// failed notes whether SQLite gave up the whole transaction because of err, and makes err typed.
func (g *guard) failed(err error) error {
	typed := g.fail.typed(err)
	if err != nil && err != io.EOF && g.lost == nil && g.raw.AutoCommit() {
		g.lost = typed
	}
	return typed
}

// rolledBack is the answer where application code goes on after SQLite gave up the whole transaction.
func (g *guard) rolledBack() error {
	return &messages.Error{Code: messages.CodeStorage, Key: g.fail.key, Message: "the database has rolled the transaction back: " + messages.AsError(g.lost).Message, Err: g.lost}
}

// writes notes that a statement of application code writes, and counts what it was given.
func (g *guard) writes(query string, args []driver.NamedValue) {
	g.wrote = true
	g.bytes += int64(len(query))
	for _, arg := range args {
		switch v := arg.Value.(type) {
		case string:
			g.bytes += int64(len(v))
		case []byte:
			g.bytes += int64(len(v))
		default:
			g.bytes += 8
		}
	}
}

// beginBatch opens the transaction of a batch.
func (g *guard) beginBatch() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost, g.wrote, g.bytes = nil, false, 0
	return g.stepLocked(g.begin, nil)
}

// commitBatch commits it. On an error nothing of it stands.
func (g *guard) commitBatch() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = nil
	err := g.stepLocked(g.commit, nil)
	if err == nil {
		return nil
	}
	if g.refused != nil {
		err = g.refused
	}
	if !g.raw.AutoCommit() {
		_ = g.stepLocked(g.rollback, nil) // the commit's error says it better
	}
	return err
}

// rollbackBatch gives everything up.
func (g *guard) rollbackBatch() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.raw.AutoCommit() {
		return nil
	}
	return g.stepLocked(g.rollback, nil)
}

// undoMember takes back what was done since the savepoint. It does nothing if there is no
// transaction any more.
func (g *guard) undoMember() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost != nil {
		return nil
	}
	if err := g.stepLocked(g.undo, nil); err != nil {
		return err
	}
	return g.stepLocked(g.release, nil)
}

// enter checks, under the lock, that tx may take a step now, for a caller with this context.
func (g *guard) enter(ctx context.Context, tx *Tx) error {
	switch {
	case tx == nil || g.cur != tx:
		return &messages.Error{Code: messages.CodeClosed, Key: g.fail.key, Message: "the transaction is over"}
	case g.lost != nil:
		return g.rolledBack()
	}
	for _, ctx := range [...]context.Context{tx.caller, tx.ctx, ctx} {
		if err := ctx.Err(); err != nil {
			return messages.AsError(err)
		}
	}
	if g.opening {
		return nil
	}
	return g.checkFence()
}

// start makes tx current; finish ends it and closes every statement and iterator that was left open.
func (g *guard) start(tx *Tx) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cur = tx
}

func (g *guard) finish(tx *Tx) {
	// This interrupts a statement that a goroutine left behind may be running. If the caller's context
	// is done already it does the same, and says more truly why.
	if tx.caller.Err() == nil {
		tx.cancel()
	}
	defer tx.cancel()
	g.mu.Lock()
	g.cur = nil
	for o := range g.open {
		_ = g.failed(o.Close())
	}
	clear(g.open)
	g.mu.Unlock()
	tx.busy.Lock() // a call that was in flight has been refused or interrupted by now
	defer tx.busy.Unlock()
	for _, s := range tx.stmts {
		_ = s.Close() // only to make database/sql forget it; the statement itself is closed
	}
}

// sqlConn returns the database/sql connection that application code works on.
func (g *guard) sqlConn() (*sql.Conn, error) {
	if g.conn != nil {
		return g.conn, nil
	}
	g.pool = sql.OpenDB(connector{g})
	conn, err := g.pool.Conn(context.Background())
	if err != nil {
		return nil, g.fail.typed(err)
	}
	g.conn = conn
	return conn, nil
}

// close closes the connection. An open transaction is rolled back.
func (g *guard) close() error {
	if g.pool != nil {
		// The sql.Conn is not closed: an iterator that was never closed would make that wait for ever.
		_ = g.pool.Close()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cur = nil
	for _, s := range []*sqlite3.SQLiteStmt{g.begin, g.commit, g.rollback, g.save, g.release, g.undo, g.find, g.insert, g.pages, g.recall, g.remember} {
		if s != nil {
			_ = s.Close()
		}
	}
	return g.fail.typed(g.raw.Close())
}
