package ledgeractor_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

func TestT1_AConsumerCannotCloseTheLedger(t *testing.T) {
	l := start(t, table)
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		return tx.Raw(func(conn driver.Conn) error {
			require.Error(t, conn.Close())
			//lint:ignore SA1019 the old way must be refused too
			_, err := conn.Begin()
			requireCode(t, err, messages.CodeInvalidArgument)
			_, err = conn.(driver.ConnBeginTx).BeginTx(t.Context(), driver.TxOptions{})
			requireCode(t, err, messages.CodeInvalidArgument)
			_, err = conn.(driver.ExecerContext).ExecContext(t.Context(), "INSERT INTO notes (body) VALUES ('raw')", nil)
			return err
		})
	}))
	l.append("still open")
	require.EqualValues(t, 1, l.count("SELECT count(*) FROM notes"))
}

func TestNothingOfATransactionWorksAfterIt(t *testing.T) {
	l := start(t, table)
	var (
		kept     *ledgeractor.Tx
		stmt     *sql.Stmt
		rows     *sql.Rows
		conn     driver.Conn
		rawStmt  driver.Stmt
		keptCtx  context.Context
		stillOne = func(tx *ledgeractor.Tx) error {
			kept, keptCtx = tx, tx.Context()
			var err error
			_, err = tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES ('1'), ('2')")
			require.NoError(t, err)
			stmt, err = tx.PrepareContext(tx.Context(), "INSERT INTO notes (body) VALUES ('x')")
			require.NoError(t, err)
			rows, err = tx.QueryContext(context.Background(), "SELECT body FROM notes")
			require.NoError(t, err)
			require.True(t, rows.Next())
			return tx.Raw(func(c driver.Conn) error {
				conn = c
				rawStmt, err = c.Prepare("INSERT INTO notes (body) VALUES ('x')")
				return err
			})
		}
	)
	require.NoError(t, l.Run(t.Context(), stillOne))
	require.ErrorIs(t, keptCtx.Err(), context.Canceled)
	ctx := context.Background()
	uses := map[string]func() error{
		"exec":      func() error { _, err := kept.ExecContext(ctx, "INSERT INTO notes (body) VALUES ('x')"); return err },
		"query":     func() error { _, err := kept.QueryContext(ctx, "SELECT 1"); return err },
		"query row": func() error { var n int; return kept.QueryRowContext(ctx, "SELECT 1").Scan(&n) },
		"prepare":   func() error { _, err := kept.PrepareContext(ctx, "SELECT 1"); return err },
		"append":    func() error { _, err := kept.Append(ctx, messages.Event{Kind: "x"}); return err },
		"raw":       func() error { return kept.Raw(func(driver.Conn) error { return nil }) },
		"iterator":  func() error { require.False(t, rows.Next()); return rows.Err() },
		"raw exec": func() error {
			_, err := conn.(driver.ExecerContext).ExecContext(ctx, "INSERT INTO notes (body) VALUES ('x')", nil)
			return err
		},
		"raw stmt": func() error { _, err := rawStmt.(driver.StmtExecContext).ExecContext(ctx, nil); return err },
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) { requireCode(t, use(), messages.CodeClosed) })
	}
	_, err := stmt.Exec()
	require.Error(t, err)
	// And not inside another transaction either.
	require.NoError(t, l.Run(ctx, func(*ledgeractor.Tx) error {
		for name, use := range uses {
			if name != "iterator" { // database/sql has closed it by now
				requireCode(t, use(), messages.CodeClosed)
			}
		}
		return nil
	}))
	require.NoError(t, rows.Close())
	require.EqualValues(t, 2, l.count("SELECT count(*) FROM notes"))
	require.Empty(t, l.kinds())
}

// valuer runs code in the middle of a statement of database/sql.
type valuer func()

func (v valuer) Value() (driver.Value, error) { v(); return "value", nil }

func TestATransactionIsForOneGoroutineAtATime(t *testing.T) {
	l := start(t, table)
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES (?)", valuer(func() {
			errs := make(chan error, 2)
			go func() {
				_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES ('overlapping')")
				errs <- err
				_, err = tx.Append(tx.Context(), messages.Event{Kind: "overlapping"})
				errs <- err
			}()
			requireCode(t, <-errs, messages.CodeInvalidArgument)
			requireCode(t, <-errs, messages.CodeInvalidArgument)
		}))
		return err
	}))
	require.EqualValues(t, 1, l.count("SELECT count(*) FROM notes"))
	require.Empty(t, l.kinds())
}

func TestALedgerIsNotCalledFromInsideItsOwnTransaction(t *testing.T) {
	l := start(t)
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		_, err := l.Append(tx.Context(), event("x"))
		requireCode(t, err, messages.CodeInvalidArgument)
		_, err = l.Query(tx.Context(), "SELECT 1")
		requireCode(t, err, messages.CodeInvalidArgument)
		return nil
	}))
}

// The driver crashes when a statement prepared from nothing is stepped: found by FuzzQuery.
func TestThereMustBeAStatement(t *testing.T) {
	l := start(t)
	for _, nothing := range []string{"", " ", ";", " \v", "\v", "\ufeff", "\ufeffSELECT 1", " \v SELECT 1", "-- x", "/* x */", "/*", "/*/", ";;-- x\n;", "--\v", "?", "'x'", "(SELECT 1)", "\"a\"", "1"} {
		_, err := l.Query(t.Context(), nothing)
		requireCode(t, err, messages.CodeSQL)
		require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
			_, err := tx.ExecContext(tx.Context(), nothing)
			requireCode(t, err, messages.CodeSQL)
			_, err = tx.QueryContext(tx.Context(), nothing)
			requireCode(t, err, messages.CodeSQL)
			_, err = tx.PrepareContext(tx.Context(), nothing)
			requireCode(t, err, messages.CodeSQL)
			return nil
		}))
	}
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		for _, one := range []string{"SELECT 1;", "SELECT 1; -- x", ";;SELECT 1 /* ; */ ; /* x */ ;", "SELECT 1 /* x"} {
			var n int
			require.NoError(t, tx.QueryRowContext(tx.Context(), one).Scan(&n), one)
			require.Equal(t, 1, n)
			stmt, err := tx.PrepareContext(tx.Context(), one)
			require.NoError(t, err)
			n = 0
			require.NoError(t, stmt.QueryRow().Scan(&n), one)
			require.Equal(t, 1, n)
		}
		_, err := tx.QueryContext(tx.Context(), "SELECT 1; SELECT 2")
		requireCode(t, err, messages.CodeSQL)
		_, err = tx.ExecContext(tx.Context(), "SELECT 1; -- x")
		return err
	}))
}

func TestTxWorksLikeDatabaseSQL(t *testing.T) {
	l := start(t, table)
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		ctx, cancel := context.WithCancel(t.Context()) // the code's own context
		defer cancel()
		insert, err := tx.PrepareContext(ctx, "INSERT INTO notes (body) VALUES (@body)")
		require.NoError(t, err)
		for _, body := range []string{"a", "b", "c"} {
			result, err := insert.ExecContext(ctx, sql.Named("body", body))
			require.NoError(t, err)
			n, err := result.RowsAffected()
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
		}
		rows, err := tx.QueryContext(ctx, "SELECT id, body FROM notes ORDER BY id")
		require.NoError(t, err)
		types, err := rows.ColumnTypes()
		require.NoError(t, err)
		require.Equal(t, "INTEGER", types[0].DatabaseTypeName())
		var got []string
		for rows.Next() {
			var id int
			var body string
			require.NoError(t, rows.Scan(&id, &body))
			// A statement between two steps of an iterator.
			_, err := tx.ExecContext(ctx, "UPDATE notes SET body = body || '!' WHERE id = ?", id)
			require.NoError(t, err)
			got = append(got, body)
		}
		require.NoError(t, rows.Err())
		require.Equal(t, []string{"a", "b", "c"}, got)
		var none string
		require.ErrorIs(t, tx.QueryRowContext(ctx, "SELECT body FROM notes WHERE id = 99").Scan(&none), sql.ErrNoRows)
		_, err = tx.ExecContext(ctx, "INSERT INTO notes (body) VALUES (?)", struct{}{})
		requireCode(t, err, messages.CodeInvalidArgument)
		_, err = tx.ExecContext(ctx, "INSERT INTO notes (body) VALUES (?)")
		requireCode(t, err, messages.CodeSQL)
		_, err = tx.ExecContext(ctx, "not SQL")
		requireCode(t, err, messages.CodeSQL)
		_, err = tx.ExecContext(ctx, "SELECT \x00")
		requireCode(t, err, messages.CodeInvalidArgument)
		cancel()
		_, err = tx.ExecContext(ctx, "SELECT 1")
		requireCode(t, err, messages.CodeCanceled)
		return nil
	}))
	require.EqualValues(t, 3, l.count("SELECT count(*) FROM notes WHERE body LIKE '%!'"))
}
