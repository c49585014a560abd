package ledgeractor_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

func TestQueryOnlyReads(t *testing.T) {
	l := start(t, table)
	l.append("x")
	target := filepath.Join(t.TempDir(), "escaped.db")
	for query, code := range map[string]messages.Code{
		"INSERT INTO notes (body) VALUES ('x')":                           messages.CodeReadOnly,
		"INSERT INTO notes (body) VALUES ('x') RETURNING id":              messages.CodeReadOnly,
		"WITH a AS (SELECT 1) INSERT INTO notes (body) SELECT 'x' FROM a": messages.CodeReadOnly,
		"UPDATE events SET kind = 'x'":                                    messages.CodeReadOnly,
		"DELETE FROM events":                                              messages.CodeReadOnly,
		"EXPLAIN DELETE FROM events":                                      messages.CodeReadOnly,
		"REPLACE INTO notes VALUES (1, 'x')":                              messages.CodeReadOnly,
		"CREATE TABLE t (x)":                                              messages.CodeReadOnly,
		"CREATE TEMP TABLE t (x)":                                         messages.CodeReadOnly,
		"DROP TABLE notes":                                                messages.CodeReadOnly,
		"ALTER TABLE notes RENAME TO n":                                   messages.CodeReadOnly,
		"ATTACH '" + target + "' AS a":                                    messages.CodeReadOnly,
		"DETACH main":                                                     messages.CodeReadOnly,
		"VACUUM INTO '" + target + "'":                                    messages.CodeReadOnly,
		"PRAGMA user_version":                                             messages.CodeReadOnly,
		"PRAGMA query_only = 0":                                           messages.CodeReadOnly,
		"PRAGMA journal_mode = DELETE":                                    messages.CodeReadOnly,
		"BEGIN":                                                           messages.CodeReadOnly,
		"COMMIT":                                                          messages.CodeReadOnly,
		"SAVEPOINT s":                                                     messages.CodeReadOnly,
		"REINDEX":                                                         messages.CodeReadOnly,
		"ANALYZE":                                                         messages.CodeReadOnly,
		"SELECT load_extension('x')":                                      messages.CodeReadOnly,
		"SELECT 1; SELECT 2":                                              messages.CodeReadOnly,
		"SELECT 1; DROP TABLE notes":                                      messages.CodeReadOnly,
		"SELECT ';' -- ;\n; /* ; */ DELETE FROM notes":                    messages.CodeReadOnly,
		"":                                 messages.CodeSQL,
		"  -- nothing\n /* here */;":       messages.CodeSQL,
		"not SQL":                          messages.CodeSQL,
		"SELECT * FROM nowhere":            messages.CodeSQL,
		"SELECT 'unfinished":               messages.CodeSQL,
		"SELECT abs(-9223372036854775808)": messages.CodeSQL,
		"SELECT 1\x00; DROP TABLE notes":   messages.CodeInvalidArgument,
		"SELECT '\xff'":                    messages.CodeInvalidArgument,
		"SELECT ?":                         messages.CodeInvalidArgument,
		"SELECT '" + strings.Repeat("x", 1<<20) + "'":                           messages.CodeTooLarge,
		"SELECT zeroblob(1000000000)":                                           messages.CodeTooLarge,
		"SELECT " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000): messages.CodeSQL,
	} {
		_, err := l.Query(t.Context(), query)
		require.Error(t, err, "%.60q", query)
		require.Equal(t, code, messages.CodeOf(err), "%.60q: %v", query, err)
	}
	require.NoFileExists(t, target)
	for query, want := range map[string]any{
		"SELECT ';' -- ;\n; /* ; */ ": ";", "SELECT \"kind\" FROM [events]": "x", "VALUES (1)": int64(1), " WITH a AS (SELECT 2) SELECT * FROM a;": int64(2),
		"SELECT 'it''s; fine'": "it's; fine", "SELECT count(*) FROM sqlite_schema WHERE name = 'notes'": int64(1),
	} {
		r, err := l.Query(t.Context(), query)
		require.NoError(t, err, query)
		require.Equal(t, want, r.Rows[0][0], query)
	}
	require.Equal(t, []string{"x"}, l.kinds())
	require.Zero(t, l.count("SELECT count(*) FROM notes"))
}

func TestErrorsNeverCarrySQLOrValues(t *testing.T) {
	l := start(t, table)
	for _, query := range []string{"SELECT secret FROM notes", "SELECT * FROM secret", "secret", "SELECT secret(1)", "SELECT 'secret", "SELECT 1 secret secret"} {
		_, err := l.Query(t.Context(), query)
		require.Error(t, err)
		document, merr := json.Marshal(err)
		require.NoError(t, merr)
		require.NotContains(t, string(document), "secret", query)
	}
}

func TestQueryIsBounded(t *testing.T) {
	l := start(t, limits(ledgeractor.Limits{MaxRows: 3, MaxBytes: 1000, QueryTimeout: 50 * time.Millisecond}))
	for range 5 {
		l.append("x")
	}
	r, err := l.Query(t.Context(), "SELECT seq FROM events")
	require.NoError(t, err)
	require.True(t, r.Truncated)
	require.Len(t, r.Rows, 3)
	r, err = l.Query(t.Context(), "SELECT seq FROM events LIMIT 3")
	require.NoError(t, err)
	require.False(t, r.Truncated)
	r, err = l.Query(t.Context(), "SELECT hex(zeroblob(300)) FROM events")
	require.NoError(t, err)
	require.True(t, r.Truncated)
	require.Len(t, r.Rows, 1)
	_, err = l.Query(t.Context(), "SELECT hex(zeroblob(600))")
	requireCode(t, err, messages.CodeTooLarge)
	_, err = l.Query(t.Context(), endless)
	requireCode(t, err, messages.CodeDeadlineExceeded)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Query(ctx, "SELECT 1")
	requireCode(t, err, messages.CodeCanceled)

	list, more, err := l.Events(t.Context(), 0, 2)
	require.NoError(t, err)
	require.True(t, more)
	require.EqualValues(t, 2, list[1].Seq)
	list, more, err = l.Events(t.Context(), 2, 100)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, list, 3)
	_, _, err = l.Events(t.Context(), -1, 0)
	requireCode(t, err, messages.CodeInvalidArgument)
	big := payload(`"%s"`, strings.Repeat("x", 2000))
	_, err = l.Append(t.Context(), []messages.Event{{Kind: "big", Payload: big}, {Kind: "big", Payload: big}})
	require.NoError(t, err)
	list, more, err = l.Events(t.Context(), 5, 0)
	require.NoError(t, err)
	require.True(t, more, "over the bytes, but never stuck")
	require.Len(t, list, 1)
}

func TestQ4_ResultsSurviveJSON(t *testing.T) {
	l := start(t)
	r, err := l.Query(t.Context(), `SELECT 9007199254740993, 1.5, 100.0, 'text', x'00ff', NULL, 9e999, -9e999, CAST(x'ff61' AS TEXT), 9e999 - 9e999`)
	require.NoError(t, err)
	require.Equal(t, []any{int64(9007199254740993), 1.5, 100.0, "text", []byte{0, 255}, nil, math.Inf(1), math.Inf(-1), "\xffa", nil}, r.Rows[0])
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(text), `[9007199254740993,1.5,100.0,"text",{"base64":"AP8="},null,{"real":"Infinity"},{"real":"-Infinity"},{"text_base64":"/2E="},null]`)

	r, err = l.Query(t.Context(), "SELECT ?, ?, ?, ?, ?, ?", json.Number("9007199254740993"), json.Number("1.5"), math.Inf(1), math.NaN(), "a\x00b", []byte{})
	require.NoError(t, err)
	require.Equal(t, []any{int64(9007199254740993), 1.5, math.Inf(1), nil, "a\x00b", []byte{}}, r.Rows[0])
	r, err = l.Query(t.Context(), "SELECT :b, :a", sql.Named("a", 1), sql.Named("b", 2))
	require.NoError(t, err)
	require.Equal(t, []any{int64(2), int64(1)}, r.Rows[0])
	for _, bad := range []any{json.Number("x"), struct{}{}, make(chan int), uint64(1) << 63, []int{1}} {
		_, err := l.Query(t.Context(), "SELECT ?", bad)
		requireCode(t, err, messages.CodeInvalidArgument)
	}
	_, err = l.Query(t.Context(), "SELECT ?", 1, 2)
	requireCode(t, err, messages.CodeInvalidArgument)
	r, err = l.Query(t.Context(), "SELECT 1 WHERE 0")
	require.NoError(t, err)
	text, err = json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"columns":["1"],"rows":[]}`, string(text))
}

func TestAppendRefusesBadEvents(t *testing.T) {
	l := start(t, limits(ledgeractor.Limits{MaxInputBytes: 3 << 20}))
	deep := strings.Repeat("[", 101) + strings.Repeat("]", 101)
	big := payload(`"%s"`, strings.Repeat("x", 1<<20-2))
	for name, c := range map[string]struct {
		events []messages.Event
		code   messages.Code
	}{
		"none":       {nil, messages.CodeInvalidArgument},
		"too many":   {make([]messages.Event, 1001), messages.CodeTooLarge},
		"no kind":    {[]messages.Event{{Kind: "x"}, {}}, messages.CodeInvalidArgument},
		"NUL":        {[]messages.Event{{Kind: "a\x00b"}}, messages.CodeInvalidArgument},
		"not UTF-8":  {[]messages.Event{{Kind: "x", IdemKey: "\xff"}}, messages.CodeInvalidArgument},
		"long":       {[]messages.Event{{Kind: strings.Repeat("x", 257)}}, messages.CodeTooLarge},
		"not JSON":   {[]messages.Event{{Kind: "x", Payload: payload("{")}}, messages.CodeInvalidArgument},
		"deep":       {[]messages.Event{{Kind: "x", Payload: payload("%s", deep)}}, messages.CodeInvalidArgument},
		"huge":       {[]messages.Event{{Kind: "x", Payload: payload(`"%s"`, strings.Repeat("x", 1<<20))}}, messages.CodeTooLarge},
		"huge sum":   {[]messages.Event{{Kind: "x", Payload: big}, {Kind: "x", Payload: big}, {Kind: "x", Payload: big}, {Kind: "x", Payload: big}}, messages.CodeTooLarge},
		"year 10000": {[]messages.Event{{Kind: "x", Time: new(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))}}, messages.CodeInvalidArgument},
	} {
		_, err := l.Append(t.Context(), c.events)
		require.Error(t, err, name)
		requireCode(t, err, c.code)
	}
	require.Empty(t, l.kinds())
	ok := payload("%s%s", strings.Repeat("[", 100), strings.Repeat("]", 100))
	_, err := l.Append(t.Context(), []messages.Event{{Kind: strings.Repeat("x", 256), Payload: ok}, {Kind: "x", Payload: big}})
	require.NoError(t, err)
	require.Len(t, l.kinds(), 2)
}

func TestReadsDoNotWaitForTheWriter(t *testing.T) {
	l := start(t, table)
	l.append("x")
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		_, err := tx.Append(tx.Context(), messages.Event{Kind: "not yet"})
		require.NoError(t, err)
		require.EqualValues(t, 1, l.count("SELECT count(*) FROM events"), "it sees what is committed")
		return nil
	}))
	require.EqualValues(t, 2, l.count("SELECT count(*) FROM events"))
}

func TestReadsAreBoundedToo(t *testing.T) {
	l := start(t, limits(ledgeractor.Limits{MaxReaders: 1, MaxQueued: 1}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := make(chan error, 6)
	read := func() { _, err := l.Query(ctx, endless); results <- err }
	go read()
	require.Eventually(t, func() bool { return l.Status().Readers == 1 }, 10*time.Second, time.Millisecond)
	for range 5 {
		go read()
	}
	for range 4 { // one runs, one waits
		err := <-results
		requireCode(t, err, messages.CodeOverloaded)
		require.Positive(t, messages.AsError(err).RetryAfter)
	}
	cancel()
	for range 2 {
		requireCode(t, <-results, messages.CodeCanceled)
	}
	require.EqualValues(t, 1, l.count("SELECT 1"))
}

func TestStoppingInterruptsReads(t *testing.T) {
	l := start(t)
	result := make(chan error, 1)
	go func() { _, err := l.Query(context.Background(), endless); result <- err }()
	require.Eventually(t, func() bool { return l.Status().Readers == 1 }, 10*time.Second, time.Millisecond)
	l.ref.Stop()
	requireCode(t, <-result, messages.CodeClosed)
	<-l.ref.Done()
	require.Equal(t, []string{"ledger.db"}, l.files())
}

func TestIdleReadersAreClosed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := start(t, at(filepath.Join(dir, "ledger.db")))
		require.Zero(t, l.Status().Readers, "opened when needed")
		l.append("x")
		require.EqualValues(t, 1, l.count("SELECT count(*) FROM events"))
		require.Equal(t, 1, l.Status().Readers)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		require.Zero(t, l.Status().Readers)
		require.EqualValues(t, 1, l.count("SELECT count(*) FROM events"))
		require.Equal(t, 1, l.Status().Readers)
		l.stop()
		time.Sleep(2 * time.Second) // guards of the actor library tick once
	})
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"SELECT 1", "DELETE FROM events", "SELECT 1; DROP TABLE notes", "PRAGMA journal_mode=DELETE", "WITH a AS (SELECT 1) INSERT INTO notes SELECT 1,2 FROM a",
		"VACUUM", "SELECT '\x00", "EXPLAIN QUERY PLAN SELECT * FROM events", "SELECT json('[[', 1)", "SELECT * FROM pragma_table_info('events')", "ATTACH 'x' AS y", " \v", "SELECT $a(';'), [;]"} {
		f.Add(seed)
	}
	l := start(f, table, limits(ledgeractor.Limits{QueryTimeout: 100 * time.Millisecond}))
	l.t = f
	_, err := l.Append(context.Background(), event("x"))
	require.NoError(f, err)
	state := func(t testing.TB) string {
		r, err := l.Query(context.Background(), "SELECT (SELECT group_concat(sql) FROM sqlite_schema), (SELECT count(*) FROM events), (SELECT count(*) FROM notes)")
		require.NoError(t, err)
		text, err := json.Marshal(r)
		require.NoError(t, err)
		return string(text)
	}
	before := state(f)
	f.Fuzz(func(t *testing.T, query string) {
		r, err := l.Query(context.Background(), query)
		if err != nil {
			var typed *messages.Error
			require.ErrorAs(t, err, &typed)
			require.NotContains(t, []messages.Code{messages.CodeInternal, messages.CodeCorrupt}, typed.Code, "%v", err)
		} else {
			_, err := json.Marshal(r)
			require.NoError(t, err)
		}
		require.Equal(t, before, state(t))
		entries, err := os.ReadDir(filepath.Dir(l.path))
		require.NoError(t, err)
		require.LessOrEqual(t, len(entries), 3)
	})
}
