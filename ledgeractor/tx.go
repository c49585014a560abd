package ledgeractor

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/leasehold/leasehold/messages"
)

// Tx is the ledger inside a transaction. It has the methods that sqlc and its like expect. It, and
// every statement and row iterator taken from it, lives until its function returns or the deadline
// passes; after that they fail with CodeClosed. It is for one goroutine at a time: an overlapping
// use fails with CodeInvalidArgument. Statements cannot begin or end transactions, attach files,
// change settings, or touch the ledger's own tables: those fail with CodeSQL.
//
// While the fence is closed each method, and each step of an open iterator, fails with CodeFenced.
type Tx struct{}

// Context returns the context of the transaction. It is done at the caller's deadline.
func (tx *Tx) Context() context.Context { return nil }

// Append stores an event in this transaction; see Handle.Append.
func (tx *Tx) Append(ctx context.Context, e messages.Event) (messages.Appended, error) {
	return messages.Appended{}, nil
}

// ExecContext runs statements that return no rows.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return nil, nil
}

// QueryContext runs a statement that returns rows.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return nil, nil
}

// QueryRowContext runs a statement that returns at most one row; its error comes from Scan.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row { return nil }

// PrepareContext prepares a statement for repeated use within the transaction.
func (tx *Tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) { return nil, nil }

// Raw gives f the driver's connection, guarded like everything else: closing it, or beginning a
// transaction on it, is refused.
func (tx *Tx) Raw(f func(conn driver.Conn) error) error { return nil }
