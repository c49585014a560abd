package ledgeractor

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/mattn/go-sqlite3"
)

// reader is a connection for the reads of others.
type reader struct {
	raw  *sqlite3.SQLiteConn
	last *sqlite3.SQLiteStmt // finds the seq of the last event
	used time.Time
}

func newReader(ctx context.Context, cfg Config) (*reader, error) {
	raw, err := openReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	raw.RegisterAuthorizer(readAuthorizer)
	last, err := raw.Prepare("SELECT coalesce(max(seq), 0) FROM main.events")
	if err != nil {
		_ = raw.Close() // err says why
		return nil, err
	}
	return &reader{raw: raw, last: last.(*sqlite3.SQLiteStmt)}, nil
}

// inTransaction runs f in one read transaction, and returns the seq of the last event that it shows. A statement that has
// given a row and was not reset keeps the transaction open: no BEGIN, which the authorizer would refuse, is needed.
func (r *reader) inTransaction(f func() error) (seq int64, err error) {
	rows, err := storedRows(r.last.QueryContext(context.Background(), nil))
	if err != nil {
		return 0, err
	}
	defer rows.Close() // resets the statement
	var row [1]driver.Value
	if err := rows.Next(row[:]); err != nil {
		return 0, err
	}
	seq, _ = row[0].(int64)
	return seq, f()
}

// close closes the connection. Nothing was written on it, so that no error matters.
func (r *reader) close() {
	_ = r.last.Close()
	_ = r.raw.Close()
}
