package ledgeractor_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

func TestW3_CommandsAnswerJSON(t *testing.T) {
	type in struct{ Body string }
	l := start(t, table, func(c *ledgeractor.Config) {
		c.Commands = map[string]ledgeractor.Command{
			"note": func(ctx context.Context, tx *ledgeractor.Tx, raw json.RawMessage) (any, error) {
				var v in
				if err := json.Unmarshal(raw, &v); err != nil {
					return nil, err
				}
				r, err := tx.ExecContext(ctx, "INSERT INTO notes (body) VALUES (?)", v.Body)
				if err != nil {
					return nil, err
				}
				id, err := r.LastInsertId()
				return map[string]int64{"id": id}, err
			},
			"unencodable": func(ctx context.Context, tx *ledgeractor.Tx, _ json.RawMessage) (any, error) {
				_, err := tx.ExecContext(ctx, "INSERT INTO notes (body) VALUES ('never')")
				require.NoError(t, err)
				return make(chan int), nil
			},
			"huge": func(context.Context, *ledgeractor.Tx, json.RawMessage) (any, error) { return make([]byte, 4000), nil },
			"rows": func(context.Context, *ledgeractor.Tx, json.RawMessage) (any, error) { return nil, sql.ErrNoRows },
		}
		c.Limits.MaxInputBytes, c.Limits.MaxOutputBytes = 1000, 1000
	})
	out, err := l.Call(t.Context(), "note", json.RawMessage(`{"body":"hi"}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"id":1}`, string(out))
	for _, c := range []struct {
		name string
		in   string
		code messages.Code
	}{
		{"nobody", "{}", messages.CodeNotFound}, {"note", "{", messages.CodeInvalidArgument}, {"note", `"` + string(make([]byte, 1000)) + `"`, messages.CodeTooLarge},
		{"note", "[1]", messages.CodeCommandFailed}, {"unencodable", "", messages.CodeCommandFailed}, {"huge", "", messages.CodeTooLarge}, {"rows", "null", messages.CodeCommandFailed},
	} {
		_, err := l.Call(t.Context(), c.name, json.RawMessage(c.in))
		requireCode(t, err, c.code)
	}
	_, err = l.Call(t.Context(), "rows", nil)
	require.ErrorIs(t, err, sql.ErrNoRows)
	require.EqualValues(t, 1, l.count("SELECT count(*) FROM notes"))
}

func TestW3_WhatApplicationsMayDoWithTheirTables(t *testing.T) {
	l := start(t, func(c *ledgeractor.Config) {
		c.Migrations = []ledgeractor.Migration{{Version: 1, Name: "many", SQL: `
CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, event INTEGER REFERENCES events (seq), body TEXT, long TEXT AS (body || '!') STORED, UNIQUE (body));
CREATE TABLE log (what TEXT);
CREATE TRIGGER a_log AFTER INSERT ON a BEGIN INSERT INTO log VALUES ('a' || NEW.id); END;
CREATE VIEW a_view AS SELECT a.body, e.kind FROM a LEFT JOIN events e ON e.seq = a.event;
CREATE INDEX events_by_kind ON events (kind);
CREATE VIRTUAL TABLE words USING fts4(body);
CREATE TABLE gone (id INTEGER PRIMARY KEY AUTOINCREMENT);
INSERT INTO gone DEFAULT VALUES`}, {Version: 2, Name: "later", SQL: `
DROP TABLE gone;
ALTER TABLE a RENAME TO b;
ALTER TABLE b ADD COLUMN extra TEXT DEFAULT '-- not a comment; ROLLBACK';
ANALYZE;
REINDEX`}}
	})
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		ctx := tx.Context()
		out, err := tx.Append(ctx, messages.Event{Kind: "k"})
		require.NoError(t, err)
		for _, statement := range []string{
			"INSERT INTO b (event, body) VALUES (1, 'x') ON CONFLICT (body) DO UPDATE SET body = 'y'",
			"INSERT INTO words (body) VALUES ('some words here')",
			"CREATE TABLE more (x); INSERT INTO more SELECT value FROM json_each('[1,2,3]'); DROP TABLE more",
			"PRAGMA foreign_key_check",
		} {
			_, err := tx.ExecContext(ctx, statement)
			require.NoError(t, err, statement)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO b (event, body) VALUES (99, 'no such event')")
		requireCode(t, err, messages.CodeSQL)
		var kind, name string
		require.NoError(t, tx.QueryRowContext(ctx, "SELECT kind FROM a_view").Scan(&kind))
		require.NoError(t, tx.QueryRowContext(ctx, "SELECT name FROM pragma_table_info('b') LIMIT 1").Scan(&name))
		require.Equal(t, []string{"k", "id"}, []string{kind, name})
		require.EqualValues(t, 1, out.Seq)
		return nil
	}))
	require.EqualValues(t, 1, l.count("SELECT count(*) FROM words WHERE body MATCH 'words'"))
	require.EqualValues(t, 1, l.count("SELECT count(*) FROM log WHERE what = 'a1'"))
	image, err := l.Cut(t.Context())
	require.NoError(t, err)
	_, err = ledgeractor.Verify(t.Context(), write(t, image.Bytes), testKey)
	require.NoError(t, err)
}

func TestRequestsWaitUntilTheLedgerIsOpen(t *testing.T) {
	gate := make(chan struct{})
	l := launch(t, func(c *ledgeractor.Config) {
		c.Migrations = []ledgeractor.Migration{{Version: 1, Name: "slow", Apply: func(context.Context, *ledgeractor.Tx) error { <-gate; return nil }}}
	})
	require.False(t, l.Status().Open)
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error, 3)
	l.taking(1, func() { _, err := l.Query(ctx, "SELECT 1"); cancelled <- err },
		func() { _, err := l.Append(ctx, event("x")); cancelled <- err },
		func() { _, err := l.Cut(ctx); cancelled <- err })
	cancel()
	for range 3 {
		requireCode(t, <-cancelled, messages.CodeCanceled)
	}
	early := make(chan error, 1)
	l.taking(1, func() { _, err := l.Append(t.Context(), event("early")); early <- err })
	close(gate)
	require.NoError(t, <-early)
	require.Equal(t, []string{"early"}, l.kinds())
}
