package ledgeractor_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

func TestW1_EventsIsAppendOnlyAndTheTenantsAlone(t *testing.T) {
	l := start(t)
	at := time.Date(2026, 3, 4, 5, 6, 7, 8_009_000, time.FixedZone("x", 3600))
	want := messages.Event{Kind: "trip.logged", Actor: "anna", SubjectID: "s1", RunID: "r1", IdemKey: "k1", Payload: payload(`{"km": 12.5, "u": "\ud83d\ude00"}`), Time: &at}
	out, err := l.Append(t.Context(), []messages.Event{want, {Kind: "bare"}})
	require.NoError(t, err)
	require.Equal(t, []messages.Appended{{Seq: 1}, {Seq: 2}}, out)
	list, more, err := l.Events(t.Context(), 0, 10)
	require.NoError(t, err)
	require.False(t, more)
	want.Time = new(at.UTC())
	require.Equal(t, messages.StoredEvent{Seq: 1, Event: want}, list[0])
	require.JSONEq(t, "{}", string(list[1].Payload))
	require.WithinDuration(t, time.Now(), *list[1].Time, time.Minute)
	l.stop()

	// Past every guard of ours: the database itself refuses.
	db := raw(t, l.path)
	columns := "(seq, tenant_id, ts, kind, payload, idem_key)"
	tenant := string(testKey.Tenant)
	for name, statement := range map[string]string{
		"update":              "UPDATE events SET kind = 'x' WHERE seq = 1",
		"delete":              "DELETE FROM events",
		"replace by seq":      "REPLACE INTO events " + columns + " VALUES (1, '" + tenant + "', '', 'x', '{}', NULL)",
		"replace by idem key": "REPLACE INTO events " + columns + " VALUES (NULL, '" + tenant + "', '', 'x', '{}', 'k1')",
		"upsert":              "INSERT INTO events " + columns + " VALUES (NULL, '" + tenant + "', '', 'x', '{}', 'k1') ON CONFLICT DO UPDATE SET kind = 'x'",
		"same idem key":       "INSERT INTO events " + columns + " VALUES (NULL, '" + tenant + "', '', 'x', '{}', 'k1')",
		"another tenant":      "INSERT INTO events " + columns + " VALUES (NULL, '" + string(otherKey.Tenant) + "', '', 'x', '{}', NULL)",
		"no tenant":           "INSERT INTO events " + columns + " VALUES (NULL, NULL, '', 'x', '{}', NULL)",
		"payload not JSON":    "INSERT INTO events " + columns + " VALUES (NULL, '" + tenant + "', '', 'x', '{', NULL)",
		"no kind":             "INSERT INTO events " + columns + " VALUES (NULL, '" + tenant + "', '', '', '{}', NULL)",
		"negative seq":        "INSERT INTO events " + columns + " VALUES (-1, '" + tenant + "', '', 'x', '{}', NULL)",
	} {
		_, err := db.Exec(statement)
		require.Error(t, err, name)
	}
	var rows, changed int
	require.NoError(t, db.QueryRow("SELECT count(*), sum(kind = 'x') FROM events").Scan(&rows, &changed))
	require.Equal(t, [2]int{2, 0}, [2]int{rows, changed})
	_, err = db.Exec("INSERT INTO events " + columns + " VALUES (NULL, '" + tenant + "', '', 'y', '{}', NULL)")
	require.NoError(t, err, "the table itself works")
}

func TestW1_ApplicationCannotTouchOurObjects(t *testing.T) {
	l := start(t, table)
	l.append("first")
	for _, statement := range []string{
		"UPDATE events SET kind = 'x'", "DELETE FROM events", "INSERT INTO events (tenant_id, ts, kind, payload) VALUES ('" + string(testKey.Tenant) + "', '', 'x', '{}')",
		"DROP TABLE events", "DROP TABLE EVENTS", "DROP TABLE main.events", "ALTER TABLE events RENAME TO e", "ALTER TABLE events ADD COLUMN x", "ALTER TABLE events DROP COLUMN actor",
		"DROP TRIGGER events_no_update", "DROP TRIGGER events_no_delete", "DROP TRIGGER events_no_replace", "DROP INDEX events_idem",
		"CREATE TRIGGER t BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END", "CREATE TEMP TRIGGER t BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END",
		"CREATE TEMP TABLE events (x)", "CREATE TEMP VIEW events AS SELECT 1", "CREATE TEMP TABLE t (x)", "CREATE TABLE leasehold_x (x)",
		"DELETE FROM leasehold_migrations", "INSERT INTO leasehold_migrations VALUES (9, '', '', '')", "DROP TABLE leasehold_migrations",
		"UPDATE sqlite_sequence SET seq = 9223372036854775807", "UPDATE sqlite_sequence SET name = 'events' WHERE name = 'notes'", "INSERT INTO sqlite_sequence VALUES ('events', 9223372036854775807)",
		"DELETE FROM sqlite_master", "UPDATE sqlite_schema SET sql = ''", "PRAGMA writable_schema = ON", "PRAGMA journal_mode = DELETE", "PRAGMA synchronous = OFF",
		"PRAGMA foreign_keys = OFF", "PRAGMA trusted_schema = ON", "PRAGMA user_version = 4", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA max_page_count = 1", "PRAGMA recursive_triggers = 1",
		"ATTACH ':memory:' AS other", "DETACH main", "VACUUM", "VACUUM INTO '/tmp/leasehold-must-not-exist'", "SELECT load_extension('x')",
		"COMMIT", "END", "ROLLBACK", "ROLLBACK TO member", "BEGIN", "SAVEPOINT s", "RELEASE member", "INSERT OR ROLLBACK INTO notes VALUES (1, '')",
		"CREATE TRIGGER t BEFORE INSERT ON notes BEGIN SELECT RAISE(ROLLBACK, 'x'); END",
		"PRAGMA defer_foreign_keys = ON", "CREATE TABLE late (n REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED)", "CREATE TABLE harsh (n UNIQUE ON CONFLICT ROLLBACK)",
	} {
		err := l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
			_, err := tx.ExecContext(tx.Context(), statement)
			requireCode(t, err, messages.CodeSQL)
			_, err = tx.QueryContext(tx.Context(), statement)
			requireCode(t, err, messages.CodeSQL)
			if stmt, err := tx.PrepareContext(tx.Context(), statement); err == nil {
				_, err = stmt.Exec()
				require.Error(t, err, statement)
			}
			// The transaction is intact: what comes now is committed with it.
			_, err = tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES (?)", statement)
			return err
		})
		require.NoError(t, err, statement)
		require.EqualValues(t, 1, l.count("SELECT count(*) FROM notes WHERE body = ?", statement), statement)
	}
	require.NoFileExists(t, "/tmp/leasehold-must-not-exist")
	require.EqualValues(t, 2, l.append("second").Seq)
	require.Equal(t, []string{"first", "second"}, l.kinds())
	l.stop()
	_, err := ledgeractor.Verify(t.Context(), l.path, testKey)
	require.NoError(t, err)
}

func TestW2_AnIdempotencyKeyGivesOneEvent(t *testing.T) {
	l := start(t)
	first, err := l.Append(t.Context(), keyed("a", "k"))
	require.NoError(t, err)
	again, err := l.Append(t.Context(), keyed("a", "k"))
	require.NoError(t, err)
	require.Equal(t, []messages.Appended{{Seq: 1}}, first)
	require.Equal(t, []messages.Appended{{Seq: 1, Duplicate: true}}, again)
	version := l.Version()
	mixed, err := l.Append(t.Context(), []messages.Event{{Kind: "c", IdemKey: "n"}, {Kind: "a", IdemKey: "k"}, {Kind: "c", IdemKey: "n"}, {Kind: "f"}})
	require.NoError(t, err)
	require.Equal(t, []messages.Appended{{Seq: 2}, {Seq: 1, Duplicate: true}, {Seq: 2, Duplicate: true}, {Seq: 3}}, mixed)
	require.Equal(t, version+1, l.Version())
	_, err = l.Append(t.Context(), keyed("a", "k"))
	require.NoError(t, err)
	require.Equal(t, version+1, l.Version(), "a duplicate changes nothing")
	require.Equal(t, []string{"a", "c", "f"}, l.kinds())
	require.EqualValues(t, 3, l.Status().Events)
	require.EqualValues(t, 3, l.Status().LastSeq)
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		out, err := tx.Append(tx.Context(), messages.Event{Kind: "a", IdemKey: "k"})
		require.Equal(t, messages.Appended{Seq: 1, Duplicate: true}, out)
		return err
	}))

	image, err := l.Cut(t.Context())
	require.NoError(t, err)
	path := t.TempDir() + "/restored.db"
	require.NoError(t, ledgeractor.WriteImage(t.Context(), path, image.Bytes))
	next := start(t, at(path)) // the client retries at the next owner
	again, err = next.Append(t.Context(), keyed("a", "k"))
	require.NoError(t, err)
	require.Equal(t, []messages.Appended{{Seq: 1, Duplicate: true}}, again)
	require.EqualValues(t, 4, next.append("next").Seq)
}

func TestW3_ApplicationTablesAndMigrations(t *testing.T) {
	two := func(c *ledgeractor.Config) {
		table(c)
		c.Migrations = append(c.Migrations, ledgeractor.Migration{Version: 3, Name: "filled", Apply: func(ctx context.Context, tx *ledgeractor.Tx) error {
			_, err := tx.ExecContext(ctx, "ALTER TABLE notes ADD COLUMN done INTEGER; INSERT INTO notes (body) VALUES ('by migration')")
			return err
		}})
	}
	l := start(t, table)
	require.EqualValues(t, 2, l.Version(), "the schema and a migration")
	l.stop()
	l = start(t, at(l.path), two)
	require.EqualValues(t, 1, l.Version())
	l.stop()
	l = start(t, at(l.path), two)
	require.Zero(t, l.Version(), "once per version")
	require.EqualValues(t, 1, l.count("SELECT count(*) FROM notes WHERE done IS NULL"))

	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		if _, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body, done) VALUES (?, 1)", "both"); err != nil {
			return err
		}
		_, err := tx.Append(tx.Context(), messages.Event{Kind: "note.added"})
		return err
	}))
	refused := errors.New("no")
	err := l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		_, err := tx.ExecContext(tx.Context(), "DELETE FROM notes")
		require.NoError(t, err)
		_, err = tx.Append(tx.Context(), messages.Event{Kind: "notes.gone"})
		require.NoError(t, err)
		return refused
	})
	requireCode(t, err, messages.CodeCommandFailed)
	require.ErrorIs(t, err, refused)
	require.Equal(t, []string{"note.added"}, l.kinds())
	require.EqualValues(t, 2, l.count("SELECT count(*) FROM notes"))
	require.EqualValues(t, 2, l.append("next").Seq, "no gap after a rollback")
	l.stop()

	for name, migrations := range map[string][]ledgeractor.Migration{
		"changed":  {{Version: 1, Name: "notes", SQL: "CREATE TABLE other (x)"}},
		"missing":  nil,
		"inserted": {{Version: 1, Name: "notes", SQL: "CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT)"}, {Version: 2, Name: "late", SQL: "CREATE TABLE x (x)"}},
	} {
		failed := launch(t, at(l.path), func(c *ledgeractor.Config) { c.Migrations = migrations })
		requireCode(t, (<-failed.opened).Err, messages.CodeIncapable)
		_, err := failed.Append(t.Context(), event("x"))
		requireCode(t, err, messages.CodeIncapable)
		require.False(t, failed.Status().Open, name)
		failed.stop()
	}
	bad := launch(t, at(l.path), two, func(c *ledgeractor.Config) {
		c.Migrations = append(c.Migrations, ledgeractor.Migration{Version: 4, Name: "half", SQL: "CREATE TABLE half (x); CREATE TABLE half (x)"})
	})
	requireCode(t, (<-bad.opened).Err, messages.CodeSQL)
	bad.stop()
	l = start(t, at(l.path), two)
	require.Zero(t, l.count("SELECT count(*) FROM sqlite_schema WHERE name = 'half'"), "each in one transaction")
}

func TestW3_InvalidConfigurationsAreTypedErrors(t *testing.T) {
	apply := func(context.Context, *ledgeractor.Tx) error { return nil }
	for name, change := range map[string]func(*ledgeractor.Config){
		"key":         func(c *ledgeractor.Config) { c.Key.Tenant = "x" },
		"path":        func(c *ledgeractor.Config) { c.Path = "relative.db" },
		"fence":       func(c *ledgeractor.Config) { c.Fence = nil },
		"limit":       func(c *ledgeractor.Config) { c.Limits.MaxRows = -1 },
		"value limit": func(c *ledgeractor.Config) { c.Limits.MaxValueBytes = 10 },
		"command":     func(c *ledgeractor.Config) { c.Commands = map[string]ledgeractor.Command{"x": nil} },
		"order": func(c *ledgeractor.Config) {
			c.Migrations = []ledgeractor.Migration{{Version: 2, Name: "a", Apply: apply}, {Version: 1, Name: "b", Apply: apply}}
		},
		"zero version": func(c *ledgeractor.Config) { c.Migrations = []ledgeractor.Migration{{Name: "a", Apply: apply}} },
		"both": func(c *ledgeractor.Config) {
			c.Migrations = []ledgeractor.Migration{{Version: 1, Name: "a", SQL: "x", Apply: apply}}
		},
		"neither":        func(c *ledgeractor.Config) { c.Migrations = []ledgeractor.Migration{{Version: 1, Name: "a"}} },
		"without a name": func(c *ledgeractor.Config) { c.Migrations = []ledgeractor.Migration{{Version: 1, Apply: apply}} },
	} {
		t.Run(name, func(t *testing.T) {
			l := launch(t, change)
			err := (<-l.opened).Err
			requireCode(t, err, messages.CodeInvalidArgument, messages.CodeInvalidID)
			_, err = l.Query(t.Context(), "SELECT 1")
			requireCode(t, err, messages.CodeInvalidArgument, messages.CodeInvalidID)
			require.NoFileExists(t, l.path)
		})
	}
}

func TestW4_WALAndAConnectionOfItsOwn(t *testing.T) {
	l := start(t)
	l.append("x")
	require.FileExists(t, l.path+"-wal")
	for _, name := range l.files() {
		info, err := os.Stat(l.path[:len(l.path)-len("ledger.db")] + name)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		var mode string
		// The function form is refused too: it is a pragma.
		err := tx.QueryRowContext(tx.Context(), "PRAGMA journal_mode").Scan(&mode)
		requireCode(t, err, messages.CodeSQL)
		return nil
	}))
	db := raw(t, l.path)
	var mode string
	require.NoError(t, db.QueryRow("PRAGMA journal_mode").Scan(&mode))
	require.Equal(t, "wal", mode)
	_, err := db.Exec("BEGIN IMMEDIATE")
	require.NoError(t, err, "between batches the actor holds no lock")
	_, err = db.Exec("ROLLBACK")
	require.NoError(t, err)
	l.stop()
	require.NoError(t, db.Close())
	require.Equal(t, []string{"ledger.db"}, l.files())
}
