package ledgeractor

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// Result is what a query found.
type Result = messages.Result

// startRead checks what every read has to pass before it begins, and bounds its time. cancel must follow.
func (h *Handle) startRead(ctx context.Context) (_ context.Context, cancel context.CancelFunc, err error) {
	ctx, cancel = context.WithTimeout(ctx, h.cfg.Limits.QueryTimeout)
	if err = h.awaitOpen(ctx); err == nil {
		err = h.admit(ctx)
	}
	return ctx, cancel, err
}

// readHere runs a read on a connection of this process. It returns the seq of the last event that the read shows. ctx is
// what readers.join made.
func (h *Handle) readHere(ctx context.Context, query string, args []driver.NamedValue, sink rowSink) (seq int64, err error) {
	pool := h.shared.readers
	r, err := pool.connection(ctx)
	if err == nil {
		seq, err = r.read(ctx, query, args, h.checkFence, sink)
		pool.giveBack(r)
	}
	if err = readError(pool.fail, err); err != nil && ctx.Err() != nil && messages.CodeOf(err) != messages.CodeFenced {
		err = causeOf(ctx) // why it was interrupted
	}
	return h.shown(seq, err)
}

// shown makes the answer of a read that shows the events up to seq: its error, or what the fence says now.
func (h *Handle) shown(seq int64, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	// Whoever is told this seq must not be told by the next request that it is not there: the actor may not have said so yet.
	h.shared.committed(seq)
	return seq, h.checkFence()
}

// readError makes the error of a read typed. It writes nothing but temporary files; when those find no room, that is no
// failure of the ledger's disk.
func readError(fail failures, err error) error {
	var lite sqlite3.Error
	if errors.As(err, &lite) && (lite.Code == sqlite3.ErrFull || lite.ExtendedCode == sqlite3.ErrIoErrWrite) {
		return &messages.Error{Code: messages.CodeTooLarge, Key: fail.key, Message: "the read needs more room for temporary files than there is", Err: err}
	}
	return fail.typed(err)
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

// rowSink takes what a read finds. row returns false to end it; the slice is reused.
type rowSink interface {
	columns(names []string)
	row(row []driver.Value) (more bool, err error)
}

// read runs one statement, in one read transaction, and gives its rows to sink, each after a check. It returns the seq of the
// last event that this transaction shows.
func (r *reader) read(ctx context.Context, query string, args []driver.NamedValue, check func() error, sink rowSink) (seq int64, err error) {
	return r.inTransaction(func() error { return r.rows(ctx, query, args, check, sink) })
}

func (r *reader) rows(ctx context.Context, query string, args []driver.NamedValue, check func() error, sink rowSink) error {
	prepared, err := r.raw.Prepare(query)
	if err != nil {
		return err
	}
	defer prepared.Close()
	stmt := prepared.(*sqlite3.SQLiteStmt)
	if !stmt.Readonly() { // what the authorizer is not asked about, such as VACUUM
		return &messages.Error{Code: messages.CodeReadOnly, Message: "only plain reads are allowed"}
	}
	if n := stmt.NumInput(); n != len(args) {
		return invalid("the number of arguments is not the number of parameters")
	}
	rows, err := storedRows(stmt.QueryContext(ctx, args))
	if err != nil {
		return err
	}
	defer rows.Close()
	names := rows.Columns()
	sink.columns(names)
	row := make([]driver.Value, len(names))
	for {
		if err := check(); err != nil {
			return err
		}
		switch err := rows.Next(row); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if more, err := sink.row(row); err != nil || !more {
			return err
		}
	}
}

// limiter bounds a result: in the process that reads it, and in the one that asked.
type limiter struct {
	maxRows  int
	maxBytes int64

	rows      int
	bytes     int64
	truncated bool
}

// takes reports whether the result has room for one more row. A first row without is an error.
func (l *limiter) takes(row []driver.Value) (bool, error) {
	for _, v := range row {
		l.bytes += sizeOf(v)
	}
	if l.rows == l.maxRows || l.bytes > l.maxBytes {
		if l.rows == 0 && l.bytes > l.maxBytes {
			return false, tooLarge("the first row of the result is over the limit")
		}
		l.truncated = true
		return false, nil
	}
	l.rows++
	return true, nil
}

// sizeOf estimates the bytes of a value in a result.
func sizeOf(v driver.Value) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v)) + 8
	case []byte:
		return int64(len(v)) + 8
	}
	return 8
}

// resultSink makes a Result.
type resultSink struct {
	limiter
	result *Result
	check  func() error // before each row; nil: whoever reads does it
}

func (s *resultSink) columns(names []string) { s.result.Columns = names }

func (s *resultSink) row(row []driver.Value) (bool, error) {
	if s.check != nil {
		if err := s.check(); err != nil {
			return false, err
		}
	}
	if more, err := s.takes(row); err != nil || !more {
		return false, err
	}
	out := make([]any, len(row))
	for i, v := range row {
		out[i] = v
	}
	s.result.Rows = append(s.result.Rows, out)
	return true, nil
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

// query implements Handle.QueryAt.
func (h *Handle) query(ctx context.Context, query string, args []any) (result *Result, seq int64, err error) {
	query, err = checkRead(query, h.cfg.Limits.MaxSQLBytes)
	if err != nil {
		return nil, 0, err
	}
	bound, err := bind(args)
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel, err := h.startRead(ctx)
	defer cancel()
	if err != nil {
		return nil, 0, err
	}
	queries, pool := h.cfg.Queries, h.shared.readers
	ctx, turn, err := queries.acquire(ctx, pool.stop, h.cfg)
	if err != nil {
		return nil, 0, err
	}
	ctx, leave, err := pool.join(ctx)
	if err != nil {
		queries.release(turn)
		return nil, 0, err
	}
	done := func() {
		leave()
		queries.release(turn)
	}
	limits := h.cfg.Limits
	sink := &resultSink{limiter: limiter{maxRows: limits.MaxRows, maxBytes: limits.MaxBytes}, result: &Result{Rows: [][]any{}}}
	if queries.processes != nil {
		q := childQuery{path: h.cfg.Path, sql: query, args: bound, maxValue: limits.MaxValueBytes, cacheKiB: limits.CacheKiB,
			maxRows: limits.MaxRows, maxBytes: limits.MaxBytes}
		sink.check = h.checkFence
		var end queryEnd
		end, err = queries.processes.run(ctx, pool.stop, q, sink, done)
		sink.truncated = sink.truncated || end.truncated
		seq, err = h.shown(end.seq, pool.ofProcess(err))
	} else {
		seq, err = h.readHere(ctx, query, bound, sink)
		done()
	}
	if err != nil {
		return nil, 0, err
	}
	sink.result.Truncated = sink.truncated
	return sink.result, seq, nil
}

// bind makes driver values of arguments.
func bind(args []any) ([]driver.NamedValue, error) {
	out := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		out[i].Ordinal = i + 1
		if n, ok := arg.(sql.NamedArg); ok {
			out[i].Name, arg = n.Name, n.Value
		}
		var err error
		if out[i].Value, err = messages.SQLValue(arg); err != nil {
			return nil, err
		}
	}
	return out, nil
}

const eventsQuery = `SELECT seq, ts, kind, coalesce(actor, ''), coalesce(subject_id, ''), coalesce(run_id, ''), coalesce(idem_key, ''), payload
FROM main.events WHERE seq > ? ORDER BY seq LIMIT ?`

// events implements Handle.EventsAt.
func (h *Handle) events(ctx context.Context, after int64, limit int) (list []messages.StoredEvent, more bool, seq int64, err error) {
	if after < 0 || limit < 0 {
		return nil, false, 0, invalid("after and limit must not be negative")
	}
	if limit == 0 || limit > h.cfg.Limits.MaxRows {
		limit = h.cfg.Limits.MaxRows
	}
	ctx, cancel, err := h.startRead(ctx)
	defer cancel()
	if err != nil {
		return nil, false, 0, err
	}
	pool := h.shared.readers
	if err := pool.wait(ctx); err != nil {
		return nil, false, 0, err
	}
	defer pool.signal()
	ctx, leave, err := pool.join(ctx)
	if err != nil {
		return nil, false, 0, err
	}
	defer leave()
	sink := &eventSink{limit: limit, maxBytes: h.cfg.Limits.MaxBytes, unreadable: func() error { return pool.fail.broken("an event cannot be read") }}
	if seq, err = h.readHere(ctx, eventsQuery, named([]driver.Value{after, int64(limit) + 1}), sink); err != nil {
		return nil, false, 0, err
	}
	return sink.list, sink.more, seq, nil
}

// eventSink makes a page of events.
type eventSink struct {
	limit      int
	maxBytes   int64
	unreadable func() error

	list []messages.StoredEvent
	size int64
	more bool
}

func (s *eventSink) columns([]string) {}

func (s *eventSink) row(row []driver.Value) (bool, error) {
	e, err := storedEvent(row)
	if err != nil {
		return false, s.unreadable()
	}
	s.size += int64(len(e.Payload)) + 64
	if len(s.list) == s.limit || s.size > s.maxBytes && len(s.list) > 0 {
		s.more = true
		return false, nil
	}
	s.list = append(s.list, e)
	return true, nil
}

func storedEvent(row []driver.Value) (messages.StoredEvent, error) {
	text := func(i int) string { s, _ := row[i].(string); return s }
	at, err := time.Parse(messages.TimeLayout, text(1))
	seq, _ := row[0].(int64)
	return messages.StoredEvent{Seq: seq, Event: messages.Event{
		Time: &at, Kind: text(2), Actor: text(3), SubjectID: text(4), RunID: text(5), IdemKey: text(6), Payload: json.RawMessage(text(7)),
	}}, err
}
