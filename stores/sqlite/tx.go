package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// write runs fn in one write transaction, at one reading of the store's clock. The context governs
// the wait for the lock. Once the transaction has begun it is carried through, but a caller whose
// context ends does not wait for a slow disk: it gets CodeUnavailable and the transaction ends alone.
func write[T any](ctx context.Context, s *Store, fn func(context.Context, *tx) (T, error)) (T, error) {
	var zero T
	select {
	case <-s.closed:
		return zero, errClosed()
	default:
	}
	if ctx.Err() != nil {
		return zero, contextError(ctx)
	}
	select {
	case <-s.turn:
	case <-s.closed:
		return zero, errClosed()
	case <-ctx.Done():
		return zero, contextError(ctx)
	}
	type answer struct {
		value T
		err   error
	}
	run := func() (a answer) {
		defer func() { s.turn <- struct{}{} }()
		a.err = s.retry(ctx, func() error {
			if err := s.moved(); err != nil {
				return err
			}
			bg := context.WithoutCancel(ctx)
			conn, err := s.writer.Conn(bg)
			if err != nil {
				return err
			}
			defer conn.Close()
			return inTransaction(bg, conn, func() error {
				now, err := s.clock.read(bg, conn)
				if err != nil {
					return err
				}
				a.value, err = fn(bg, &tx{conn: conn, now: now})
				return err
			})
		})
		return a
	}
	var a answer
	if ctx.Done() == nil {
		a = run()
	} else {
		done := make(chan answer, 1)
		go func() { done <- run() }()
		select {
		case a = <-done:
		case <-ctx.Done():
			return zero, contextError(ctx)
		}
	}
	if a.err != nil {
		return zero, storeError(s.path, a.err)
	}
	return a.value, nil
}

// read runs fn on a connection that sees the newest commit and waits for no writer.
func read[T any](ctx context.Context, s *Store, fn func(*sql.Conn) (T, error)) (T, error) {
	var value T
	select {
	case <-s.closed:
		return value, errClosed()
	default:
	}
	err := s.retry(ctx, func() error {
		if err := s.moved(); err != nil {
			return err
		}
		conn, err := s.reader.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		value, err = fn(conn)
		return err
	})
	if err != nil {
		var zero T
		select {
		case <-s.closed: // closed underneath the read
			return zero, errClosed()
		default:
		}
		if ctx.Err() != nil {
			return zero, contextError(ctx)
		}
		return zero, storeError(s.path, err)
	}
	return value, nil
}

// inTransaction runs fn between BEGIN IMMEDIATE, which waits for no lock but takes it, and COMMIT.
func inTransaction(ctx context.Context, conn *sql.Conn, fn func() error) (err error) {
	if _, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			// It fails if SQLite rolled back by itself; a connection in a transaction must not go
			// back into the pool, though, and a fresh one costs little.
			if _, rerr := conn.ExecContext(ctx, `ROLLBACK`); rerr != nil {
				_ = conn.Raw(func(c any) error {
					if c, ok := c.(*sqlite3.SQLiteConn); ok && !c.AutoCommit() {
						return errBadConn
					}
					return nil
				})
			}
		}
	}()
	if err := fn(); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, `COMMIT`)
	return err
}

// retry runs attempt until it meets no lock of another process, the context ends, or the busy
// timeout is over. A busy attempt has changed nothing. The pauses are short and random, so that many
// waiting processes all get their turn.
func (s *Store) retry(ctx context.Context, attempt func() error) error {
	var waited time.Duration
	for pause := time.Millisecond; ; pause = min(2*pause, 16*time.Millisecond) {
		if ctx.Err() != nil {
			return contextError(ctx)
		}
		err := attempt()
		if err == nil || !isBusy(err) {
			return err
		}
		if waited >= s.busyTimeout {
			return &messages.Error{Code: messages.CodeUnavailable, Message: "the lease file is locked by other processes", Err: err}
		}
		wait := pause/2 + rand.N(pause)
		waited += wait
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return contextError(ctx)
		}
	}
}

func isBusy(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked)
}
