package ledgeractor

import (
	"context"
	"database/sql/driver"
	"strconv"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// limitMemory bounds the memory of SQLite in this whole process, which nothing but queries may share: a lease store that was
// refused memory would lose its leases. A query may hold thousands of values of the largest size at a time, and no
// limit of a single connection counts them together. See https://www.sqlite.org/pragma.html#pragma_hard_heap_limit.
func limitMemory(ctx context.Context, bytes int64) (err error) {
	failed := func(err error) error {
		return &messages.Error{Code: messages.CodeInternal, Message: "cannot bound SQLite's memory", Err: err}
	}
	conn, err := (&sqlite3.SQLiteDriver{}).Open(":memory:")
	if err != nil {
		return failed(err)
	}
	raw := conn.(*sqlite3.SQLiteConn)
	defer func() { _ = raw.Close() }() // it holds nothing
	var limit int64
	err = eachRow(ctx, raw, "PRAGMA hard_heap_limit = "+strconv.FormatInt(bytes, 10), nil, func(row []driver.Value) error {
		limit, _ = row[0].(int64)
		return nil
	})
	switch {
	case err != nil:
		return failed(err)
	case limit < 1 || limit > bytes:
		return failed(invalid("SQLite took the limit as " + strconv.FormatInt(limit, 10)))
	}
	return nil
}
