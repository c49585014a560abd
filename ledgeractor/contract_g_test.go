package ledgeractor_test

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// requireFenced demands a refusal that is certain.
func requireFenced(t *testing.T, err error) {
	t.Helper()
	requireCode(t, err, messages.CodeFenced)
	require.ErrorIs(t, err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonExpiredLocally})
}

func TestG1_EveryWayInFailsWhileFenced(t *testing.T) {
	l := start(t, table, func(c *ledgeractor.Config) {
		c.Commands = map[string]ledgeractor.Command{"x": func(context.Context, *ledgeractor.Tx, json.RawMessage) (any, error) { return nil, nil }}
	})
	l.append("before")
	f := func(*ledgeractor.Tx) error { t.Error("ran while fenced"); return nil }
	l.fence.close()
	ctx := t.Context()
	calls := map[string]func() error{
		"append": func() error { _, err := l.Append(ctx, event("x")); return err },
		"run":    func() error { return l.Run(ctx, f) },
		"call":   func() error { _, err := l.Call(ctx, "x", nil); return err },
		"query":  func() error { _, err := l.Query(ctx, "SELECT 1"); return err },
		"events": func() error { _, _, err := l.Events(ctx, 0, 0); return err },
		"cut":    func() error { _, err := l.Cut(ctx); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { requireFenced(t, call()) })
	}
	l.fence.closed.Store(false)
	require.Equal(t, []string{"before"}, l.kinds(), "a renewal resumes service")

	// Everything that a transaction hands out, taken while the fence was open.
	err := l.Run(ctx, func(tx *ledgeractor.Tx) error {
		ctx := tx.Context()
		_, err := tx.ExecContext(ctx, "INSERT INTO notes (body) VALUES ('1'), ('2'), ('3')")
		require.NoError(t, err)
		insert, err := tx.PrepareContext(ctx, "INSERT INTO notes (body) VALUES ('prepared')")
		require.NoError(t, err)
		read, err := tx.PrepareContext(ctx, "SELECT body FROM notes")
		require.NoError(t, err)
		rows, err := tx.QueryContext(ctx, "SELECT body FROM notes ORDER BY id")
		require.NoError(t, err)
		defer rows.Close()
		prepared, err := read.QueryContext(ctx)
		require.NoError(t, err)
		defer prepared.Close()
		require.True(t, rows.Next())
		require.True(t, prepared.Next())
		require.NoError(t, tx.Raw(func(conn driver.Conn) error {
			rawInsert, err := conn.Prepare("INSERT INTO notes (body) VALUES ('raw prepared')")
			require.NoError(t, err)
			rawRead, err := conn.Prepare("SELECT 1")
			require.NoError(t, err)

			l.fence.close()
			defer l.fence.closed.Store(false)
			steps := map[string]func() error{
				"exec":              func() error { _, err := tx.ExecContext(ctx, "INSERT INTO notes (body) VALUES ('x')"); return err },
				"query":             func() error { _, err := tx.QueryContext(ctx, "SELECT 1"); return err },
				"query row":         func() error { var n int; return tx.QueryRowContext(ctx, "SELECT 1").Scan(&n) },
				"prepare":           func() error { _, err := tx.PrepareContext(ctx, "SELECT 1"); return err },
				"append":            func() error { _, err := tx.Append(ctx, messages.Event{Kind: "x"}); return err },
				"raw":               func() error { return tx.Raw(func(driver.Conn) error { return nil }) },
				"prepared exec":     func() error { _, err := insert.Exec(); return err },
				"prepared query":    func() error { _, err := read.Query(); return err },
				"prepared row":      func() error { var s string; return read.QueryRow().Scan(&s) },
				"open iterator":     func() error { require.False(t, rows.Next()); return rows.Err() },
				"prepared iterator": func() error { require.False(t, prepared.Next()); return prepared.Err() },
				"raw exec": func() error {
					_, err := conn.(driver.ExecerContext).ExecContext(ctx, "INSERT INTO notes (body) VALUES ('x')", nil)
					return err
				},
				"raw query":          func() error { _, err := conn.(driver.QueryerContext).QueryContext(ctx, "SELECT 1", nil); return err },
				"raw prepare":        func() error { _, err := conn.Prepare("SELECT 1"); return err },
				"raw ping":           func() error { return conn.(driver.Pinger).Ping(ctx) },
				"raw prepared exec":  func() error { _, err := rawInsert.(driver.StmtExecContext).ExecContext(ctx, nil); return err },
				"raw prepared query": func() error { _, err := rawRead.(driver.StmtQueryContext).QueryContext(ctx, nil); return err },
			}
			for name, step := range steps {
				err := step()
				require.Error(t, err, name)
				requireFenced(t, err)
			}
			return nil
		}))
		_, err = insert.Exec()
		return err // the fence is open again: the transaction goes on
	})
	require.NoError(t, err)
	require.EqualValues(t, 3, l.count("SELECT count(*) FROM notes WHERE body IN ('1', '2', '3')"))
	require.EqualValues(t, 1, l.count("SELECT count(*) FROM notes WHERE body = 'prepared'"))
	require.EqualValues(t, 4, l.count("SELECT count(*) FROM notes"), "nothing was written while fenced")
	require.Equal(t, []string{"before"}, l.kinds())
}

func TestG1_ReadsAreCheckedAtEachRow(t *testing.T) {
	l := start(t)
	for range 5 {
		l.append("x")
	}
	const before = 2 // looks before the first row: at the call, and at the row itself
	for n := int64(1); n <= before+6; n++ {
		l.fence.at(n, l.fence.close)
		_, err := l.Query(t.Context(), "SELECT seq FROM events")
		requireFenced(t, err)
		l.fence.closed.Store(false)
		l.fence.at(n, l.fence.close)
		_, _, err = l.Events(t.Context(), 0, 0)
		requireFenced(t, err)
		l.fence.closed.Store(false)
	}
	l.fence.at(before+7, l.fence.close)
	_, err := l.Query(t.Context(), "SELECT seq FROM events")
	require.NoError(t, err)
}

// An append looks at the fence five times: at the call, before it runs, before the commit, in the
// commit hook, and after the commit.
const checksOfAppend = 5

func TestG2_TheLeaseMustHoldBeforeAndAfterTheCommit(t *testing.T) {
	l := start(t)
	for n := int64(1); n <= checksOfAppend; n++ {
		kind := fmt.Sprint("check ", n)
		version := l.Version()
		l.fence.at(n, l.fence.close)
		_, err := l.Append(t.Context(), keyed(kind, kind))
		require.EqualValues(t, true, l.fence.closed.Load())
		l.fence.closed.Store(false)
		require.ErrorIs(t, err, messages.ErrFenced)
		stored := l.count("SELECT count(*) FROM events WHERE kind = ?", kind)
		if n < checksOfAppend {
			requireFenced(t, err)
			require.Zero(t, stored, "rolled back: a true refusal")
			require.Equal(t, version, l.Version())
			continue
		}
		requireCode(t, err, messages.CodeUnknownOutcome)
		require.ErrorIs(t, err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonExpiredLocally})
		require.EqualValues(t, 1, stored, "a refusal would have been a lie")
		require.Equal(t, version+1, l.Version())
		out, err := l.Append(t.Context(), keyed(kind, kind))
		require.NoError(t, err)
		require.True(t, out[0].Duplicate, "the retry settles it")
	}
	l.fence.at(checksOfAppend+1, l.fence.close)
	l.append("enough")
}

func TestG2_WorkThatOutlivesTheLeaseIsRolledBack(t *testing.T) {
	l := start(t, table)
	err := l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES ('late')")
		l.fence.close()
		return err
	})
	requireFenced(t, err)
	l.fence.closed.Store(false)
	require.Zero(t, l.count("SELECT count(*) FROM notes"))
	// Code that goes on although it was refused does not get further.
	err = l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		l.fence.close()
		_, err := tx.Append(tx.Context(), messages.Event{Kind: "x"})
		requireFenced(t, err)
		l.fence.closed.Store(false)
		return err
	})
	requireFenced(t, err)
	require.Empty(t, l.kinds())
}

func TestG3_WorkThatWaitsIsRefusedAndABatchIsDecidedAsOne(t *testing.T) {
	l := start(t)
	release := l.hold()
	results := l.queue(20)
	l.fence.close()
	release()
	for range 20 {
		requireFenced(t, <-results)
	}
	l.fence.closed.Store(false)
	require.Empty(t, l.kinds())

	// The lease ends between the members of a batch, before its commit, and after it.
	for _, want := range []struct {
		check  int64
		code   messages.Code
		stored int
	}{{20 + 1, messages.CodeFenced, 0}, {20 + 3, messages.CodeUnknownOutcome, 20}} {
		release = l.hold()
		results = l.queue(20)
		l.fence.at(want.check, l.fence.close)
		release()
		for range 20 {
			err := <-results
			requireCode(t, err, want.code)
			require.ErrorIs(t, err, messages.ErrFenced)
		}
		l.fence.closed.Store(false)
		require.Len(t, l.kinds(), want.stored)
	}
}

func TestG4_ARenewalResumesService(t *testing.T) {
	l := start(t)
	for range 3 {
		l.fence.close()
		_, err := l.Append(t.Context(), event("refused"))
		requireFenced(t, err)
		l.fence.closed.Store(false)
		l.append("taken")
	}
	require.Equal(t, []string{"taken", "taken", "taken"}, l.kinds())
}

func TestPlantedFaultsBreakWhatTheyName(t *testing.T) {
	plant := func(f planted.Fault) func(*ledgeractor.Config) {
		return func(c *ledgeractor.Config) { c.Planted = planted.Of(f) }
	}
	t.Run(planted.AckBeforeCommit.String(), func(t *testing.T) {
		l := start(t, plant(planted.AckBeforeCommit))
		l.fence.at(3, l.fence.close)
		l.append("acknowledged")
		require.NoError(t, l.Drain(t.Context())) // the batch is decided
		require.NoError(t, l.Undrain(t.Context()))
		l.fence.closed.Store(false)
		require.Empty(t, l.kinds(), "acknowledged and lost")
	})
	t.Run(planted.NoFenceBeforeCommit.String(), func(t *testing.T) {
		l := start(t, plant(planted.NoFenceBeforeCommit))
		err := l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
			_, err := tx.Append(tx.Context(), messages.Event{Kind: "late"})
			l.fence.close()
			return err
		})
		requireCode(t, err, messages.CodeUnknownOutcome)
		l.fence.closed.Store(false)
		require.Equal(t, []string{"late"}, l.kinds(), "committed although the lease had ended")
	})
	t.Run(planted.NoFenceAfterCommit.String(), func(t *testing.T) {
		l := start(t, plant(planted.NoFenceAfterCommit))
		l.fence.on(checksOfAppend-1, l.fence.close, true)
		l.append("acknowledged")
		require.True(t, l.fence.closed.Load(), "acknowledged after the lease had ended")
	})
	t.Run(planted.RefuseAfterCommit.String(), func(t *testing.T) {
		l := start(t, plant(planted.RefuseAfterCommit))
		l.fence.at(checksOfAppend, l.fence.close)
		_, err := l.Append(t.Context(), event("stands"))
		requireFenced(t, err)
		l.fence.closed.Store(false)
		require.Equal(t, []string{"stands"}, l.kinds(), "refused and yet there")
	})
}
