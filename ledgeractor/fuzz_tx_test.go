package ledgeractor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// FuzzTx runs any SQL as application code would. Whatever it is, the transaction is still there
// afterwards, is rolled back, and leaves the events and the ledger's objects as they were.
func FuzzTx(f *testing.F) {
	for _, seed := range []string{"SELECT 1", "COMMIT", "DELETE FROM events", "INSERT INTO notes (body) VALUES ('x') RETURNING id", "DROP TABLE notes; COMMIT", " \v", "VACUUM",
		"CREATE TRIGGER t AFTER INSERT ON notes BEGIN DELETE FROM events; END; INSERT INTO notes (body) VALUES (1)", "PRAGMA foreign_keys = 0", "INSERT OR FAIL INTO notes VALUES (1, 2)",
		"CREATE VIEW v AS SELECT * FROM events; DELETE FROM v", "WITH a AS (SELECT 1) UPDATE events SET kind = 2", "ALTER TABLE notes RENAME TO events2", "RELEASE member", "ATTACH '' AS a"} {
		f.Add(seed)
	}
	l := start(f, table)
	_, err := l.Append(context.Background(), event("x"))
	require.NoError(f, err)
	state := func(t testing.TB) any {
		r, err := l.Query(context.Background(), "SELECT (SELECT group_concat(sql) FROM sqlite_schema), (SELECT count(*) FROM events), (SELECT count(*) FROM notes), (SELECT group_concat(name || seq) FROM sqlite_sequence)")
		require.NoError(t, err)
		return r.Rows[0]
	}
	before := state(f)
	back := errors.New("back")
	f.Fuzz(func(t *testing.T, query string) {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		err := l.Run(ctx, func(tx *ledgeractor.Tx) error {
			_, _ = tx.ExecContext(ctx, query)
			if rows, err := tx.QueryContext(ctx, query); err == nil {
				for rows.Next() {
				}
				_ = rows.Close()
			}
			if stmt, err := tx.PrepareContext(ctx, query); err == nil {
				_, _ = stmt.Exec()
				if rows, err := stmt.Query(); err == nil {
					rows.Next() // and left open
				}
			}
			if ctx.Err() == nil {
				if _, err := tx.Append(ctx, messages.Event{Kind: "never"}); err != nil && ctx.Err() == nil {
					return err // the transaction was lost
				}
			}
			return back
		})
		if !errors.Is(err, back) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		require.NoError(t, l.Drain(context.Background())) // whatever was interrupted is over
		require.NoError(t, l.Undrain(context.Background()))
		require.Equal(t, before, state(t))
	})
}
