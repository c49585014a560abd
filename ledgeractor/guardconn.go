package ledgeractor

import (
	"context"
	"database/sql/driver"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// connector makes database/sql work on a guard.
type connector struct{ g *guard }

func (c connector) Connect(context.Context) (driver.Conn, error) { return &guardConn{g: c.g}, nil }
func (c connector) Driver() driver.Driver                        { return guardDriver{} }

type guardDriver struct{}

func (guardDriver) Open(string) (driver.Conn, error) {
	return nil, invalid("a ledger cannot be opened by name")
}

// guardConn is the guarded connection as database/sql and Tx.Raw see it. tx is nil for the one that
// database/sql holds; that one acts for the current transaction, and only Tx uses it.
type guardConn struct {
	g  *guard
	tx *Tx
}

var (
	_ driver.ExecerContext      = (*guardConn)(nil)
	_ driver.QueryerContext     = (*guardConn)(nil)
	_ driver.ConnPrepareContext = (*guardConn)(nil)
	_ driver.ConnBeginTx        = (*guardConn)(nil)
	_ driver.Pinger             = (*guardConn)(nil)
	_ driver.SessionResetter    = (*guardConn)(nil)
	_ driver.Validator          = (*guardConn)(nil)
	_ driver.NamedValueChecker  = (*guardConn)(nil)
)

// CheckNamedValue implements driver.NamedValueChecker: arguments are made values of SQL where a statement is run, whatever way
// they come.
func (c *guardConn) CheckNamedValue(*driver.NamedValue) error { return nil }

// enter returns the transaction that this connection acts for, if it may take a step now.
func (c *guardConn) enter(ctx context.Context) (*Tx, error) {
	tx := c.tx
	if tx == nil {
		tx = c.g.cur
	}
	c.g.auth.altering = false
	return tx, c.g.enter(ctx, tx)
}

func (c *guardConn) checkText(query string) (sqlText, error) {
	text, err := checkSQL(query, c.g.cfg.Limits.MaxSQLBytes)
	if err != nil {
		return text, err
	}
	if text.refused != "" {
		// ROLLBACK as a conflict clause, or in a trigger, would roll back the neighbours in the batch;
		// a constraint that is deferred would fail only at their common commit.
		return text, &messages.Error{Code: messages.CodeSQL, Key: c.g.fail.key, Message: text.refused + " is not allowed: it would concern other transactions too"}
	}
	if text.alters && strings.Contains(strings.ToLower(query), ownPrefix) {
		// The authorizer is not told to what a table is renamed. A table of such a name could be in the way of
		// a later version of our schema, and its triggers would be taken for an attack on ours.
		return text, &messages.Error{Code: messages.CodeSQL, Key: c.g.fail.key, Message: "names that begin with " + ownPrefix + " are the ledger's own"}
	}
	return text, nil
}

// checkSingle is checkText for what takes one statement only.
func (c *guardConn) checkSingle(query string) (sqlText, error) {
	text, err := c.checkText(query)
	if err == nil && text.several {
		err = &messages.Error{Code: messages.CodeSQL, Key: c.g.fail.key, Message: "only one statement is allowed here; ExecContext takes several"}
	}
	return text, err
}

// ExecContext implements driver.ExecerContext.
func (c *guardConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if _, err := c.checkText(query); err != nil {
		return nil, err
	}
	args, err := storedArgs(args)
	if err != nil {
		return nil, err
	}
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	tx, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	ctx, release := tx.statementContext(ctx, true)
	defer release()
	c.g.writes(query, args)
	result, err := c.g.raw.ExecContext(ctx, query, args)
	return result, c.g.failed(err)
}

// QueryContext implements driver.QueryerContext.
func (c *guardConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	text, err := c.checkSingle(query)
	if err != nil {
		return nil, err
	}
	if args, err = storedArgs(args); err != nil {
		return nil, err
	}
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	tx, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	ctx, release := tx.statementContext(ctx, !text.isRead())
	if !text.isRead() {
		c.g.writes(query, args)
	}
	raw, err := storedRows(c.g.raw.QueryContext(ctx, query[:text.end], args))
	if err != nil {
		release()
		return nil, c.g.failed(err)
	}
	return c.g.newRows(tx, raw, release), nil
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *guardConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	text, err := c.checkSingle(query)
	if err != nil {
		return nil, err
	}
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	tx, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := c.g.raw.PrepareContext(ctx, query[:text.end])
	if err != nil {
		return nil, c.g.failed(err)
	}
	s := &guardStmt{g: c.g, tx: tx, raw: raw.(*sqlite3.SQLiteStmt)}
	c.g.open[s.raw] = struct{}{}
	return s, nil
}

// Prepare implements driver.Conn.
func (c *guardConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// errOwnTransaction refuses a transaction inside the transaction.
func (c *guardConn) errOwnTransaction() error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Key: c.g.fail.key, Message: "the transaction is the runtime's: none can be begun inside it"}
}

// BeginTx implements driver.ConnBeginTx. It refuses.
func (c *guardConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return nil, c.errOwnTransaction()
}

// Begin implements driver.Conn. It refuses.
func (c *guardConn) Begin() (driver.Tx, error) { return nil, c.errOwnTransaction() }

// Close implements driver.Conn. The connection is the runtime's: application code is refused, and
// database/sql only lets go of it.
func (c *guardConn) Close() error {
	if c.tx == nil {
		return nil
	}
	return &messages.Error{Code: messages.CodeInvalidArgument, Key: c.g.fail.key, Message: "the ledger is the runtime's and cannot be closed"}
}

// Ping implements driver.Pinger.
func (c *guardConn) Ping(ctx context.Context) error {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	_, err := c.enter(ctx)
	return err
}

// ResetSession implements driver.SessionResetter.
func (c *guardConn) ResetSession(context.Context) error { return nil }

// IsValid implements driver.Validator: database/sql must never replace the connection.
func (c *guardConn) IsValid() bool { return true }

// interruptGrace is how long a writing statement that shares its batch may run past its deadline:
// interrupting it makes SQLite roll back the whole batch.
const interruptGrace = time.Second

// statementContext returns the context that a statement runs under: done when the caller's is, or
// the transaction's. release must be called when the statement is over.
func (tx *Tx) statementContext(user context.Context, write bool) (ctx context.Context, release func()) {
	if write && tx.shared {
		late, cancel := context.WithCancel(context.WithoutCancel(tx.ctx))
		fire := func() { time.AfterFunc(interruptGrace, cancel) }
		stopTx, stopUser := context.AfterFunc(tx.ctx, fire), context.AfterFunc(user, fire)
		return late, func() { stopTx(); stopUser(); cancel() }
	}
	if user.Done() == nil {
		return tx.ctx, func() {}
	}
	if user.Value(txKey{}) == tx {
		return user, func() {}
	}
	merged, cancel := context.WithCancelCause(user)
	stop := context.AfterFunc(tx.ctx, func() { cancel(tx.ctx.Err()) })
	return merged, func() { stop(); cancel(nil) }
}

// txKey finds the Tx in contexts that were derived from Tx.Context.
type txKey struct{}

// insideTransaction reports whether ctx belongs to a transaction that is running on this ledger.
func insideTransaction(ctx context.Context, path string) bool {
	tx, ok := ctx.Value(txKey{}).(*Tx)
	return ok && tx.g.cfg.Path == path
}
