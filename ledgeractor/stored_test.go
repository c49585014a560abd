package ledgeractor_test

import (
	"database/sql"
	"database/sql/driver"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// declared are types that the driver makes something of, or that somebody may think it does.
var declared = []string{"DATETIME", "TIMESTAMP", "DATE", "BOOLEAN", "INTEGER", "REAL", "NUMERIC", "DECIMAL(10,2)", "TEXT", "VARCHAR(3)", "BLOB", "TIME", "JSON", ""}

// kept are values that no affinity changes: those columns have none, or SQLite has to keep them as they are.
var kept = []any{nil, "2 Jan 2020", "not a date", "", "a\x00b", "\xff", []byte{}, []byte{0, 1}, int64(2), int64(1), int64(0), int64(-1),
	int64(1577836800), int64(1577836800000), int64(math.MaxInt64), int64(math.MinInt64), 0.5, 1e300, math.Inf(-1)}

// all reads rows by a driver of database/sql.
func all(t *testing.T, rows *sql.Rows, err error) (out [][]any) {
	t.Helper()
	require.NoError(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	for rows.Next() {
		row, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		require.NoError(t, rows.Scan(to...))
		out = append(out, row)
	}
	require.NoError(t, rows.Err())
	return out
}

// Whatever type a column is declared with, what comes back is what is stored: by SQL's own account of it (typeof, and the value through
// an expression, which has no declared type), and by every way in which rows are handed out. A driver that converts again fails here.
func TestQ4_StoredValues(t *testing.T) {
	l := start(t)
	for i, kind := range declared {
		table := "t" + string(rune('a'+i))
		var want [][]any
		require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
			ctx := tx.Context()
			_, err := tx.ExecContext(ctx, "CREATE TABLE "+table+" (id INTEGER PRIMARY KEY, v "+kind+"); CREATE VIEW v"+table+" AS SELECT v FROM "+table)
			require.NoError(t, err)
			insert, err := tx.PrepareContext(ctx, "INSERT INTO "+table+" (v) VALUES (?) RETURNING v")
			require.NoError(t, err)
			for _, v := range kept {
				rows, err := insert.QueryContext(ctx, v)
				returned := all(t, rows, err)
				rows, err = tx.QueryContext(ctx, "SELECT coalesce(v, NULL) FROM "+table+" ORDER BY id DESC LIMIT 1")
				plain := all(t, rows, err)
				require.Equal(t, plain, returned, "%s: RETURNING", kind)
				want = append(want, plain[0])
			}
			for _, query := range []string{"SELECT v FROM " + table, "SELECT v AS w FROM " + table, "SELECT v FROM v" + table, "SELECT v FROM (SELECT v FROM " + table + " LIMIT 1000)"} {
				for range 2 { // the second time from the driver's cache
					rows, err := tx.QueryContext(ctx, query)
					require.Equal(t, want, all(t, rows, err), "%s: %s", kind, query)
				}
				stmt, err := tx.PrepareContext(ctx, query)
				require.NoError(t, err)
				for range 2 {
					rows, err := stmt.QueryContext(ctx)
					require.Equal(t, want, all(t, rows, err), "%s: prepared", kind)
				}
				if query == "SELECT v FROM "+table { // the columns of a statement that is prepared change under it
					_, err = tx.ExecContext(ctx, "ALTER TABLE "+table+" ADD COLUMN w DATETIME; ALTER TABLE "+table+" DROP COLUMN w")
					require.NoError(t, err)
					rows, err := stmt.QueryContext(ctx)
					require.Equal(t, want, all(t, rows, err), "%s: after ALTER", kind)
				}
			}
			return tx.Raw(func(conn driver.Conn) error {
				rows, err := conn.(driver.QueryerContext).QueryContext(ctx, "SELECT v FROM "+table, nil)
				require.NoError(t, err)
				defer rows.Close()
				for _, row := range want {
					var got [1]driver.Value
					require.NoError(t, rows.Next(got[:]))
					require.Equal(t, row[0], got[0], "%s: raw", kind)
				}
				require.ErrorIs(t, rows.Next(make([]driver.Value, 1)), io.EOF)
				return nil
			})
		}))
		for range 2 {
			r, err := l.Query(t.Context(), "SELECT v FROM "+table)
			require.NoError(t, err)
			require.Equal(t, want, r.Rows, "%s: Query", kind)
		}
		if kind == "" || kind == "BLOB" { // no affinity
			for i, v := range kept {
				require.Equal(t, v, want[i][0])
			}
		}
	}
}

// One rule makes values of arguments: a time finds what a time has written, in whatever zone and by whatever way.
func TestQ4_ArgumentsOfATransactionAreThoseOfAQuery(t *testing.T) {
	l := start(t)
	at := time.Date(2026, 1, 2, 4, 4, 5, 6789, time.FixedZone("", 3600))
	given := []any{at, &at, true, math.NaN(), math.Inf(1), float32(0.5), sql.NullString{String: "x", Valid: true}, sql.NullTime{}, []byte(nil), uint8(7), "", []byte{}}
	want := []any{"2026-01-02T03:04:05.000006Z", "2026-01-02T03:04:05.000006Z", int64(1), nil, math.Inf(1), 0.5, "x", nil, nil, int64(7), "", []byte{}}
	r, err := l.Query(t.Context(), "SELECT ?,?,?,?,?,?,?,?,?,?,?,?", given...)
	require.NoError(t, err)
	require.Equal(t, [][]any{want}, r.Rows)
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		ctx := tx.Context()
		rows, err := tx.QueryContext(ctx, "SELECT ?,?,?,?,?,?,?,?,?,?,?,?", given...)
		require.Equal(t, [][]any{want}, all(t, rows, err))
		stmt, err := tx.PrepareContext(ctx, "SELECT ?,?,?,?,?,?,?,?,?,?,?,?")
		require.NoError(t, err)
		rows, err = stmt.QueryContext(ctx, given...)
		require.Equal(t, [][]any{want}, all(t, rows, err))
		_, err = tx.ExecContext(ctx, "CREATE TABLE times (at DATETIME); INSERT INTO times VALUES (?)", at)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "INSERT INTO times VALUES (?)", struct{}{})
		requireCode(t, err, messages.CodeInvalidArgument)
		_, err = tx.Append(ctx, messages.Event{Kind: "x", Time: &at})
		require.NoError(t, err)
		return tx.Raw(func(conn driver.Conn) error {
			_, err := conn.(driver.ExecerContext).ExecContext(ctx, "INSERT INTO times VALUES (?)", []driver.NamedValue{{Ordinal: 1, Value: at}})
			return err
		})
	}))
	r, err = l.Query(t.Context(), "SELECT (SELECT count(*) FROM times WHERE at = ?), (SELECT count(*) FROM events WHERE ts = ?), unixepoch(at) FROM times", at, at)
	require.NoError(t, err)
	require.Equal(t, []any{int64(2), int64(1), at.Unix()}, r.Rows[0])
}
