package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// attempts is how often a statement is sent that the database undid because of others.
const attempts = 8

// query runs one statement, in one round trip, and returns its rows. Every statement is a transaction of its
// own, and it is done only when the last byte of its answer has been read without an error: whatever happens
// before that is CodeUnavailable, never a definite answer.
func query[T any](ctx context.Context, s *Store, statement string, args []any, scan func(scanner) (T, error)) ([]T, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, &messages.Error{Code: messages.CodeClosed, Message: "the lease store is closed"}
	}
	s.inFlight.Add(1)
	s.mu.Unlock()
	defer s.inFlight.Done()

	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	pause := time.Millisecond
	for attempt := 1; ; attempt++ {
		s.roundTrips.Add(1)
		rows, err := queryOnce(limited, s.db, statement, args, scan)
		switch {
		case err == nil:
			return rows, nil
		case ctx.Err() != nil:
			return nil, contextError(ctx)
		case limited.Err() != nil:
			return nil, &messages.Error{Code: messages.CodeUnavailable, Message: fmt.Sprintf("the lease store did not answer within %v", s.timeout)} // no Err: no deadline of the caller's has passed
		case attempt == attempts || !s.dialect.Fault(err).Retry:
			return nil, s.dialect.operationError(err)
		}
		// Random, so that those who met do not meet again.
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-limited.Done():
			timer.Stop()
		}
		pause *= 2
	}
}

func queryOnce[T any](ctx context.Context, db *sql.DB, statement string, args []any, scan func(scanner) (T, error)) ([]T, error) {
	rows, err := db.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		value, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	// A procedure answers with its rows and then with its own end, which is where a failure after the
	// rows would be told.
	for rows.NextResultSet() {
		for rows.Next() {
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return out, rows.Close()
}

// contextError is CodeUnavailable, because the operation may take effect, with the end of the context
// as its Cause: errors.Is(err, context.DeadlineExceeded) works.
func contextError(ctx context.Context) error {
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeOf(ctx.Err()), Message: "the lease store did not answer in time", Err: context.Cause(ctx)}
}

// operationError types what went wrong with an operation: everything but a refusal by the rules of the
// tables is, for a holder, a store that does not answer.
func (d Dialect) operationError(err error) error {
	var typed *messages.Error
	if errors.As(err, &typed) { // from the check of a new connection, or a record that cannot be read
		if typed.Code == messages.CodeCorrupt || typed.Code == messages.CodeUnavailable {
			return err
		}
		return &messages.Error{Code: messages.CodeUnavailable, Cause: typed.Code, Object: typed.Object, Message: "the lease store must not be used", Err: err}
	}
	f := d.Fault(err)
	switch {
	case f.Code == messages.CodeInternal:
		return &messages.Error{Code: messages.CodeInternal, Message: f.Message, Err: err}
	case f.Message != "":
		return &messages.Error{Code: messages.CodeUnavailable, Cause: f.Code, Message: f.Message, Err: err}
	}
	return &messages.Error{Code: messages.CodeUnavailable, Message: "the lease store did not answer", Err: err}
}

// OpenError types what went wrong in Open, where nothing has been promised yet: the reason is the code.
// ctx is the one that Open was given.
func (d Dialect) OpenError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	var typed *messages.Error
	if errors.As(err, &typed) {
		return err
	}
	typed = messages.AsError(d.operationError(err))
	if typed.Code == messages.CodeUnavailable && typed.Cause != "" {
		typed.Code, typed.Cause = typed.Cause, ""
	}
	return typed
}
