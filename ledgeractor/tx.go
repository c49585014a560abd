package ledgeractor

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"

	"github.com/leasehold/leasehold/messages"
)

// Tx is the ledger inside a transaction. It has the methods that sqlc and its like expect. It, and
// every statement and row iterator taken from it, lives until its function returns or the deadline
// passes; after that they fail with CodeClosed. It is for one goroutine at a time: an overlapping
// use fails with CodeInvalidArgument. Statements cannot begin or end transactions, attach files,
// change settings, create temporary objects, or touch the ledger's own tables (but they may index
// and reference events). Since transactions share commits, the words ROLLBACK and DEFERRED are
// refused: conflicts cannot roll back more than their statement, and constraints are checked at each
// statement. All of those fail with CodeSQL.
//
// While the fence is closed each method, and each step of an open iterator, fails with CodeFenced.
type Tx struct {
	g      *guard
	ctx    context.Context
	cancel context.CancelFunc
	caller context.Context
	shared bool // the batch has other members

	busy  sync.Mutex
	stmts []*sql.Stmt

	appended int64 // rows that were stored
	last     int64 // the last one's seq
}

func (g *guard) newTx(ctx context.Context, shared bool) *Tx {
	tx := &Tx{g: g, caller: ctx, shared: shared}
	ctx, tx.cancel = context.WithCancel(ctx)
	tx.ctx = context.WithValue(ctx, txKey{}, tx)
	return tx
}

// Context returns the context of the transaction. It is done at the caller's deadline, and when the
// function has returned.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Append stores an event in this transaction; see Handle.Append.
func (tx *Tx) Append(ctx context.Context, e messages.Event) (messages.Appended, error) {
	if err := ctx.Err(); err != nil {
		return messages.Appended{}, messages.AsError(err)
	}
	rows, err := eventRows(tx.g.cfg, []messages.Event{e})
	if err != nil {
		return messages.Appended{}, err
	}
	if err := tx.use(); err != nil {
		return messages.Appended{}, err
	}
	defer tx.busy.Unlock()
	out, err := tx.g.appendRow(tx, rows[0])
	if err == nil && !out.Duplicate {
		tx.appended++
		tx.last = out.Seq
	}
	return out, err
}

// ExecContext runs statements that return no rows.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	conn, err := tx.connect()
	if err != nil {
		return nil, err
	}
	defer tx.busy.Unlock()
	result, err := conn.ExecContext(ctx, query, args...)
	return result, tx.g.fail.typed(err)
}

// QueryContext runs a statement that returns rows.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	conn, err := tx.connect()
	if err != nil {
		return nil, err
	}
	defer tx.busy.Unlock()
	rows, err := conn.QueryContext(ctx, query, args...)
	return rows, tx.g.fail.typed(err)
}

// QueryRowContext runs a statement that returns at most one row; its error comes from Scan.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	conn, err := tx.connect()
	if err != nil {
		return failedRow(err)
	}
	defer tx.busy.Unlock()
	return conn.QueryRowContext(ctx, query, args...)
}

// PrepareContext prepares one statement for repeated use within the transaction.
func (tx *Tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	conn, err := tx.connect()
	if err != nil {
		return nil, err
	}
	defer tx.busy.Unlock()
	stmt, err := conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, tx.g.fail.typed(err)
	}
	tx.stmts = append(tx.stmts, stmt)
	return stmt, nil
}

// Raw gives f the driver's connection, guarded like everything else: closing it, or beginning a
// transaction on it, is refused.
func (tx *Tx) Raw(f func(conn driver.Conn) error) error {
	conn := &guardConn{g: tx.g, tx: tx}
	if err := conn.Ping(tx.ctx); err != nil {
		return err
	}
	return f(conn)
}

// use takes the transaction for one call.
func (tx *Tx) use() error {
	if !tx.busy.TryLock() {
		return &messages.Error{Code: messages.CodeInvalidArgument, Key: tx.g.fail.key, Message: "the transaction is in use by another goroutine"}
	}
	return nil
}

// connect takes the transaction for one call and returns the connection, if it may be used now. The
// guard checks again, under its lock.
func (tx *Tx) connect() (*sql.Conn, error) {
	if err := tx.use(); err != nil {
		return nil, err
	}
	tx.g.mu.Lock()
	defer tx.g.mu.Unlock()
	err := tx.g.enter(tx.ctx, tx)
	var conn *sql.Conn
	if err == nil {
		conn, err = tx.g.sqlConn()
	}
	if err != nil {
		tx.busy.Unlock()
	}
	return conn, err
}

// failedRow makes a *sql.Row whose Scan returns err: database/sql has no constructor for one.
func failedRow(err error) *sql.Row {
	pool := sql.OpenDB(refusing{err})
	defer pool.Close()
	return pool.QueryRowContext(context.Background(), "")
}

// refusing is a connector that never connects.
type refusing struct{ err error }

func (r refusing) Connect(context.Context) (driver.Conn, error) { return nil, r.err }
func (r refusing) Driver() driver.Driver                        { return guardDriver{} }
