package ledgeractor_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// oldImage is an image of testKey that the last version of Leasehold without leasehold_commands cut: two
// events, and the migration of table.
func oldImage(t testing.TB) []byte {
	file, err := os.Open("testdata/schema-0.db.gz")
	require.NoError(t, err)
	defer file.Close()
	r, err := gzip.NewReader(file)
	require.NoError(t, err)
	image, err := io.ReadAll(r)
	require.NoError(t, err)
	return image
}

// commandRow is a row of leasehold_commands as a statement, with its seq, tenant and key.
func commandRow(verb, seq, tenant, key string) string {
	return verb + " INTO leasehold_commands (seq, tenant_id, ts, idem_key, command, input_sha256, output) VALUES (" +
		seq + ", '" + tenant + "', '', '" + key + "', 'x', '" + anyHash + "', '1')"
}

var anyHash = strings.Repeat("0", 64)

func TestW2_ALedgerOfAnEarlierVersionIsCompleted(t *testing.T) {
	path := write(t, oldImage(t))
	found, err := ledgeractor.Verify(t.Context(), path, testKey)
	require.NoError(t, err)
	require.Equal(t, [2]int64{2, 2}, [2]int64{found.Events, found.LastSeq})
	var runs atomic.Int64
	l := start(t, at(path), noting(&runs, nil))
	require.EqualValues(t, 1, l.Version(), "it differs from its image: the next snapshot saves that")
	require.Equal(t, []string{"trip.logged", "bare"}, l.kinds())
	for _, want := range []bool{false, true} {
		_, duplicate, err := l.CallOnce(t.Context(), "note", "k1", json.RawMessage("1"))
		require.NoError(t, err)
		require.Equal(t, want, duplicate)
	}
	image, err := l.Cut(t.Context())
	require.NoError(t, err)
	l.stop()
	_, err = ledgeractor.Verify(t.Context(), write(t, image.Bytes), testKey)
	require.NoError(t, err)
	l = start(t, at(path), noting(&runs, nil))
	require.Zero(t, l.Version(), "once")
	_, duplicate, err := l.CallOnce(t.Context(), "note", "k1", json.RawMessage("1"))
	require.NoError(t, err)
	require.True(t, duplicate)
	fresh := start(t, table)
	const schema = "SELECT coalesce(group_concat(name || ' ' || coalesce(sql, ''), ';' ORDER BY name), '') AS s FROM sqlite_schema"
	want, err := fresh.Query(t.Context(), schema)
	require.NoError(t, err)
	have, err := l.Query(t.Context(), schema)
	require.NoError(t, err)
	require.Equal(t, want.Rows, have.Rows, "completed and new are the same")
}

func TestVerifyKnowsTheVersionsOfTheSchema(t *testing.T) {
	var runs atomic.Int64
	l := start(t, noting(&runs, nil))
	_, _, err := l.CallOnce(t.Context(), "note", "k", nil)
	require.NoError(t, err)
	image, err := l.Cut(t.Context())
	require.NoError(t, err)
	old, tenant := oldImage(t), string(testKey.Tenant)
	for name, c := range map[string]struct {
		image      []byte
		statements string
		code       messages.Code
	}{
		"the table is missing":            {image.Bytes, "DROP TABLE leasehold_commands", messages.CodeCorrupt},
		"no update trigger":               {image.Bytes, "DROP TRIGGER leasehold_commands_no_update", messages.CodeCorrupt},
		"no delete trigger":               {image.Bytes, "DROP TRIGGER leasehold_commands_no_delete", messages.CodeCorrupt},
		"no replace trigger":              {image.Bytes, "DROP TRIGGER leasehold_commands_no_replace", messages.CodeCorrupt},
		"a foreign trigger":               {image.Bytes, "CREATE TRIGGER extra BEFORE INSERT ON leasehold_commands BEGIN SELECT RAISE(IGNORE); END", messages.CodeCorrupt},
		"the table was altered":           {image.Bytes, "ALTER TABLE leasehold_commands ADD COLUMN x TEXT", messages.CodeCorrupt},
		"a row of another tenant":         {image.Bytes, "PRAGMA ignore_check_constraints = 1; " + commandRow("INSERT", "9", string(otherKey.Tenant), "z"), messages.CodeCorrupt},
		"said to be of the old version":   {image.Bytes, "PRAGMA user_version = 0", messages.CodeCorrupt},
		"of a version that is impossible": {image.Bytes, "PRAGMA user_version = -1", messages.CodeCorrupt},
		"of a newer version":              {image.Bytes, "PRAGMA user_version = 2", messages.CodeIncapable},
		"old, said to be new":             {old, "PRAGMA user_version = 1", messages.CodeCorrupt},
		"old, with a table in the way":    {old, "CREATE TABLE Leasehold_Commands (x)", messages.CodeCorrupt},
		"old, an event trigger missing":   {old, "DROP TRIGGER events_no_update", messages.CodeCorrupt},
		"sound, one more row":             {image.Bytes, commandRow("INSERT", "9", tenant, "z"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, c.image)
			db := raw(t, path)
			_, err := db.Exec(c.statements)
			require.NoError(t, err)
			require.NoError(t, db.Close())
			_, err = ledgeractor.Verify(t.Context(), path, testKey)
			require.Equal(t, c.code, messages.CodeOf(err), "%v", err)
			if name == "a row of another tenant" {
				return // opening does not read the rows: verification is there for that
			}
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			opened := launch(t, at(path), table)
			err = (<-opened.opened).Err
			require.Equal(t, c.code, messages.CodeOf(err), "%v", err)
			opened.stop()
			if c.code != "" {
				after, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, before, after, "a refused ledger is left as it is")
			}
		})
	}
}

func TestW1_CommandsAreAppendOnlyByTheDatabaseItself(t *testing.T) {
	var runs atomic.Int64
	l := start(t, noting(&runs, nil))
	_, _, err := l.CallOnce(t.Context(), "note", "k1", nil)
	require.NoError(t, err)
	l.stop()
	db, tenant := raw(t, l.path), string(testKey.Tenant)
	for name, statement := range map[string]string{
		"update":                "UPDATE leasehold_commands SET output = 'x'",
		"delete":                "DELETE FROM leasehold_commands",
		"replace by seq":        commandRow("REPLACE", "1", tenant, "other"),
		"replace by key":        commandRow("REPLACE", "NULL", tenant, "k1"),
		"upsert":                commandRow("INSERT", "NULL", tenant, "k1") + " ON CONFLICT DO UPDATE SET output = 'x'",
		"the same key":          commandRow("INSERT", "NULL", tenant, "k1"),
		"another tenant":        commandRow("INSERT", "NULL", string(otherKey.Tenant), "k2"),
		"an empty key":          commandRow("INSERT", "NULL", tenant, ""),
		"a negative seq":        commandRow("INSERT", "-1", tenant, "k2"),
		"a hash that is none":   "INSERT INTO leasehold_commands (tenant_id, ts, idem_key, command, input_sha256, output) VALUES ('" + tenant + "', '', 'k2', 'x', '', '1')",
		"without an output":     "INSERT INTO leasehold_commands (tenant_id, ts, idem_key, command, input_sha256, output) VALUES ('" + tenant + "', '', 'k2', 'x', '" + anyHash + "', NULL)",
		"ignoring the conflict": commandRow("INSERT OR REPLACE", "NULL", tenant, "k1"),
	} {
		_, err := db.Exec(statement)
		require.Error(t, err, name)
	}
	var rows, changed int
	require.NoError(t, db.QueryRow("SELECT count(*), sum(output = 'x' OR command <> 'note') FROM leasehold_commands").Scan(&rows, &changed))
	require.Equal(t, [2]int{1, 0}, [2]int{rows, changed})
	_, err = db.Exec(commandRow("INSERT", "NULL", tenant, "k2"))
	require.NoError(t, err, "the table itself works")
}

func TestW1_ApplicationCannotTouchStoredOutputs(t *testing.T) {
	var runs atomic.Int64
	l := start(t, noting(&runs, nil))
	first, _, err := l.CallOnce(t.Context(), "note", "k", nil)
	require.NoError(t, err)
	tenant := string(testKey.Tenant)
	statements := []string{
		"UPDATE leasehold_commands SET output = '{}'", "DELETE FROM leasehold_commands", "DELETE FROM main.LEASEHOLD_COMMANDS",
		commandRow("INSERT", "NULL", tenant, "mine"), commandRow("REPLACE", "1", tenant, "k"),
		"DROP TABLE leasehold_commands", "ALTER TABLE leasehold_commands RENAME TO c", "ALTER TABLE leasehold_commands ADD COLUMN x TEXT",
		"ALTER TABLE notes RENAME TO leasehold_commands", "ALTER TABLE notes RENAME TO leasehold_x", `/**/ alter table notes rename to "Leasehold_X"`,
		"ALTER TABLE main.notes RENAME TO 'leasehold_x'", "ALTER TABLE notes RENAME TO [leasehold_x]", "SELECT 1; ALTER TABLE notes RENAME TO `leasehold_x`", "CREATE TEMP TABLE leasehold_commands (x)", "CREATE VIEW leasehold_view AS SELECT 1",
		"DROP TRIGGER leasehold_commands_no_update", "DROP TRIGGER leasehold_commands_no_delete", "DROP TRIGGER leasehold_commands_no_replace",
		"CREATE TRIGGER t BEFORE INSERT ON leasehold_commands BEGIN SELECT RAISE(IGNORE); END",
		"CREATE UNIQUE INDEX one_each ON leasehold_commands (command)", "CREATE INDEX i ON leasehold_migrations (name)",
		"DROP INDEX sqlite_autoindex_leasehold_commands_1", "PRAGMA user_version = 0",
	}
	for _, statement := range statements {
		require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
			_, err := tx.ExecContext(tx.Context(), statement)
			requireCode(t, err, messages.CodeSQL)
			_, err = tx.QueryContext(tx.Context(), statement)
			requireCode(t, err, messages.CodeSQL)
			return nil
		}), statement)
		_, err := l.Query(t.Context(), statement)
		requireCode(t, err, messages.CodeReadOnly, messages.CodeSQL)
	}
	// A trigger of the application's own does not get there either, from its tables.
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		_, err := tx.ExecContext(tx.Context(), "CREATE TRIGGER sly AFTER INSERT ON notes BEGIN "+commandRow("INSERT", "NULL", tenant, "sly")+"; END")
		require.NoError(t, err)
		_, err = tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES ('x')")
		requireCode(t, err, messages.CodeSQL)
		_, err = tx.ExecContext(tx.Context(), "DROP TRIGGER sly")
		return err
	}))
	// Reading is allowed: it is the tenant's own.
	require.EqualValues(t, 1, l.count("SELECT count(*) FROM leasehold_commands WHERE command = 'note' AND idem_key = 'k'"))
	again, duplicate, err := l.CallOnce(t.Context(), "note", "k", nil)
	require.NoError(t, err)
	require.True(t, duplicate)
	require.Equal(t, string(first), string(again))
	_, duplicate, err = l.CallOnce(t.Context(), "note", "next", nil)
	require.NoError(t, err)
	require.False(t, duplicate)
	l.stop()
	_, err = ledgeractor.Verify(t.Context(), l.path, testKey)
	require.NoError(t, err)
}
