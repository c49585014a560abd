package ledgeractor

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"io"
	"math"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// Result is what a query found. Text that is not valid UTF-8 is given as []byte, infinities as the strings
// "Infinity" and "-Infinity"; SQLite stores NaN as NULL.
type Result = messages.Result

// read runs f on a read-only connection, between two looks at the fence.
func (h *Handle) read(ctx context.Context, f func(ctx context.Context, raw *sqlite3.SQLiteConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Limits.QueryTimeout)
	defer cancel()
	if err := h.awaitOpen(ctx); err != nil {
		return err
	}
	if err := h.admit(ctx); err != nil {
		return err
	}
	pool := h.shared.readers
	r, err := pool.acquire(ctx)
	if err != nil {
		return err
	}
	defer pool.release(r)
	defer context.AfterFunc(pool.stop, cancel)()
	if err := f(ctx, r.raw); err != nil {
		if pool.stop.Err() != nil {
			return closedError(h.cfg.Key)
		}
		return pool.fail.typed(err)
	}
	return h.checkFence()
}

func (h *Handle) checkFence() error {
	return fencedError(h.cfg.Key, h.cfg.Epoch, h.cfg.Fence.Check())
}

// awaitOpen waits until the actor has opened the ledger, or could not.
func (h *Handle) awaitOpen(ctx context.Context) error {
	if h.ref == nil {
		return closedError(h.cfg.Key)
	}
	select {
	case <-h.shared.opened:
		return nil
	case <-ctx.Done():
		return h.gaveUp(ctx)
	case <-h.ref.Done():
		return closedError(h.cfg.Key)
	}
}

// each runs one statement and calls f with each row, after a look at the fence; the slice is reused.
// f returns false to end it.
func (h *Handle) each(ctx context.Context, raw *sqlite3.SQLiteConn, query string, args []driver.NamedValue,
	columns func([]string), f func(row []driver.Value) (bool, error)) error {
	prepared, err := raw.Prepare(query)
	if err != nil {
		return err
	}
	defer prepared.Close()
	stmt := prepared.(*sqlite3.SQLiteStmt)
	if n := stmt.NumInput(); n != len(args) {
		return invalid("the number of arguments is not the number of parameters")
	}
	rows, err := stmt.QueryContext(ctx, args)
	if err != nil {
		return err
	}
	defer rows.Close()
	names := rows.Columns()
	columns(names)
	row := make([]driver.Value, len(names))
	for {
		if err := h.checkFence(); err != nil {
			return err
		}
		switch err := rows.Next(row); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if more, err := f(row); err != nil || !more {
			return err
		}
	}
}

// checkRead refuses what cannot be a single plain read, before SQLite sees it, and returns the
// statement alone.
func checkRead(query string, limit int) (string, error) {
	text, err := checkSQL(query, limit)
	if err == nil && text.several {
		err = &messages.Error{Code: messages.CodeReadOnly, Message: "only one statement is allowed"}
	}
	return query[:text.end], err
}

// query implements Handle.Query.
func (h *Handle) query(ctx context.Context, query string, args []any) (*Result, error) {
	query, err := checkRead(query, h.cfg.Limits.MaxSQLBytes)
	if err != nil {
		return nil, err
	}
	bound, err := bind(args)
	if err != nil {
		return nil, err
	}
	result := &Result{Rows: [][]any{}}
	size := int64(0)
	err = h.read(ctx, func(ctx context.Context, raw *sqlite3.SQLiteConn) error {
		return h.each(ctx, raw, query, bound, func(names []string) { result.Columns = names }, func(row []driver.Value) (bool, error) {
			if len(result.Rows) == h.cfg.Limits.MaxRows {
				result.Truncated = true
				return false, nil
			}
			out := make([]any, len(row))
			for i, v := range row {
				n := int64(0)
				out[i], n = portable(v)
				size += n
			}
			if size > h.cfg.Limits.MaxBytes {
				if len(result.Rows) == 0 {
					return false, tooLarge("the first row of the result is over the limit")
				}
				result.Truncated = true
				return false, nil
			}
			result.Rows = append(result.Rows, out)
			return true, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// bind makes driver values of arguments; what came as JSON may hold json.Number.
func bind(args []any) ([]driver.NamedValue, error) {
	out := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		out[i].Ordinal = i + 1
		if n, ok := arg.(sql.NamedArg); ok {
			out[i].Name, arg = n.Name, n.Value
		}
		if n, ok := arg.(json.Number); ok {
			if whole, err := n.Int64(); err == nil {
				arg = whole
			} else if f, err := n.Float64(); err == nil {
				arg = f
			} else {
				return nil, invalid("an argument is not a number")
			}
		}
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "an argument has a type that cannot be stored", Err: err}
		}
		out[i].Value = v
	}
	return out, nil
}

// portable makes a value survive JSON, and estimates its size in bytes.
func portable(v driver.Value) (any, int64) {
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return []byte(v), int64(len(v))
		}
		return v, int64(len(v)) + 8
	case []byte:
		return v, int64(len(v)) + 8
	case float64:
		switch {
		case math.IsInf(v, 1):
			return "Infinity", 8
		case math.IsInf(v, -1):
			return "-Infinity", 8
		}
	case time.Time:
		if y := v.Year(); y < 0 || y > 9999 { // JSON has no such time
			return v.UTC().Format(time.RFC3339Nano), 8
		}
	}
	return v, 8
}

const eventsQuery = `SELECT seq, ts, kind, coalesce(actor, ''), coalesce(subject_id, ''), coalesce(run_id, ''), coalesce(idem_key, ''), payload
FROM main.events WHERE seq > ? ORDER BY seq LIMIT ?`

// events implements Handle.Events.
func (h *Handle) events(ctx context.Context, after int64, limit int) (list []messages.StoredEvent, more bool, err error) {
	if after < 0 || limit < 0 {
		return nil, false, invalid("after and limit must not be negative")
	}
	if limit == 0 || limit > h.cfg.Limits.MaxRows {
		limit = h.cfg.Limits.MaxRows
	}
	size := int64(0)
	args := named([]driver.Value{after, int64(limit) + 1})
	err = h.read(ctx, func(ctx context.Context, raw *sqlite3.SQLiteConn) error {
		return h.each(ctx, raw, eventsQuery, args, func([]string) {}, func(row []driver.Value) (bool, error) {
			e, err := storedEvent(row)
			if err != nil {
				return false, h.shared.readers.fail.broken("an event cannot be read")
			}
			size += int64(len(e.Payload)) + 64
			if len(list) == limit || size > h.cfg.Limits.MaxBytes && len(list) > 0 {
				more = true
				return false, nil
			}
			list = append(list, e)
			return true, nil
		})
	})
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}

func storedEvent(row []driver.Value) (messages.StoredEvent, error) {
	text := func(i int) string { s, _ := row[i].(string); return s }
	at, err := time.Parse(timeLayout, text(1))
	seq, _ := row[0].(int64)
	return messages.StoredEvent{Seq: seq, Event: messages.Event{
		Time: at, Kind: text(2), Actor: text(3), SubjectID: text(4), RunID: text(5), IdemKey: text(6), Payload: json.RawMessage(text(7)),
	}}, err
}
