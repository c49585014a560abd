package ledgeractor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// ddlBefore are the tables that the statements below work on, with rows, so that what looks at them has something to look at.
const ddlBefore = `
CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b INTEGER DEFAULT 1 CHECK (b > 0), c REAL);
CREATE TABLE s (id INTEGER PRIMARY KEY, a TEXT NOT NULL, b ANY, CONSTRAINT a_given CHECK (a <> '')) STRICT;
CREATE TABLE w (k TEXT PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES t (id));
CREATE INDEX t_a ON t (a);
CREATE VIEW v AS SELECT id, upper(a) AS a FROM t;
CREATE TRIGGER t_insert AFTER INSERT ON t BEGIN UPDATE t SET c = 1 WHERE id = NEW.id; END;
CREATE VIRTUAL TABLE f USING fts4 (body);
CREATE VIRTUAL TABLE r USING rtree (id, x0, x1);
INSERT INTO t (a, b) VALUES ('one', 1), ('two', 2);
INSERT INTO s VALUES (1, 'one', 1), (2, 'two', x'00');
INSERT INTO w VALUES ('k', 1);
INSERT INTO child VALUES (1, 1);
INSERT INTO f VALUES ('some words');
INSERT INTO r VALUES (1, 0, 1)`

// ddl is the DDL of https://www.sqlite.org/lang.html, form by form.
var ddl = []string{
	// lang_createtable.html
	"CREATE TABLE n (x)",
	"CREATE TABLE IF NOT EXISTS t (x)",
	"CREATE TABLE main.n (x)",
	`CREATE TABLE "a name" ([x y] TEXT, "z" INT)`,
	"CREATE TABLE n AS SELECT a, count(*) AS n, max(b) FROM t GROUP BY a",
	"CREATE TABLE n AS WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9) SELECT x FROM c",
	"CREATE TABLE n (x INTEGER PRIMARY KEY ASC, y)",
	"CREATE TABLE n (x INTEGER PRIMARY KEY DESC, y)",
	"CREATE TABLE n (x INTEGER CONSTRAINT key PRIMARY KEY ON CONFLICT REPLACE AUTOINCREMENT)",
	"CREATE TABLE n (x TEXT CONSTRAINT given NOT NULL ON CONFLICT FAIL UNIQUE ON CONFLICT IGNORE)",
	"CREATE TABLE n (x NULL, y VARCHAR(10), z DECIMAL(10, 2))",
	"CREATE TABLE n (x TEXT CHECK (length(x) < 10 AND x GLOB 'a*' AND x LIKE '%b' AND x NOT IN ('c')))",
	"CREATE TABLE n (a DEFAULT 1, b DEFAULT -1.5, c DEFAULT 'x', d DEFAULT x'00', e DEFAULT NULL, f DEFAULT (1 + abs(-1)), g DEFAULT CURRENT_TIMESTAMP, h DEFAULT CURRENT_DATE, i DEFAULT CURRENT_TIME, j DEFAULT TRUE)",
	"CREATE TABLE n (x TEXT COLLATE NOCASE, y TEXT COLLATE RTRIM, z TEXT COLLATE BINARY)",
	"CREATE TABLE n (x INTEGER REFERENCES t, y INTEGER REFERENCES t (id) ON DELETE CASCADE ON UPDATE SET NULL MATCH FULL NOT DEFERRABLE)",
	"CREATE TABLE n (x INTEGER REFERENCES t ON DELETE RESTRICT ON UPDATE SET DEFAULT, y INTEGER REFERENCES t ON DELETE NO ACTION NOT DEFERRABLE INITIALLY IMMEDIATE)",
	"CREATE TABLE n (event INTEGER REFERENCES events (seq))",
	"CREATE TABLE n (x, y GENERATED ALWAYS AS (x || '!') STORED, z AS (x + 1) VIRTUAL, u AS (json_extract(x, '$.a')))",
	"CREATE TABLE n (x, y, z, CONSTRAINT key PRIMARY KEY (x COLLATE NOCASE DESC, y) ON CONFLICT ABORT, CONSTRAINT once UNIQUE (y, z), CHECK (x <> y), FOREIGN KEY (z) REFERENCES t (id) ON DELETE CASCADE)",
	"CREATE TABLE n (x TEXT PRIMARY KEY, y) WITHOUT ROWID",
	"CREATE TABLE n (a INT, b INTEGER, c REAL, d TEXT, e BLOB, f ANY) STRICT",
	"CREATE TABLE n (x TEXT PRIMARY KEY, y INTEGER CHECK (y > 0)) STRICT, WITHOUT ROWID",
	"CREATE TABLE n (x REAL CHECK (x BETWEEN 0 AND 1 OR x IS NULL)) STRICT; INSERT INTO n VALUES (0.5), (NULL); DROP TABLE n",
	// lang_createvtab.html
	"CREATE VIRTUAL TABLE n USING fts4 (title, body, tokenize=unicode61); INSERT INTO n VALUES ('a', 'b'); INSERT INTO n (n) VALUES ('optimize')",
	"CREATE VIRTUAL TABLE n USING fts3 (body, tokenize=porter)",
	"CREATE VIRTUAL TABLE IF NOT EXISTS n USING fts4 (a, content='t'); INSERT INTO n (n) VALUES ('rebuild')",
	"CREATE VIRTUAL TABLE n USING fts4aux (f)",
	"CREATE VIRTUAL TABLE n USING rtree_i32 (id, x0, x1, +extra TEXT)",
	"DROP TABLE f",
	"DROP TABLE r",
	"ALTER TABLE f RENAME TO g",
	"ALTER TABLE r RENAME TO q",
	// lang_createindex.html
	"CREATE INDEX n ON t (b)",
	"CREATE UNIQUE INDEX IF NOT EXISTS main.n ON t (a COLLATE NOCASE DESC, b ASC) WHERE b IS NOT NULL",
	"CREATE INDEX n ON t (lower(a), b + 1, a || b)",
	"CREATE INDEX n ON s (b, a)",
	"CREATE INDEX n ON w (v)",
	"CREATE INDEX n ON events (kind, ts) WHERE subject_id IS NOT NULL",
	"CREATE INDEX n ON events (payload ->> '$.km')",
	// lang_createtrigger.html
	"CREATE TRIGGER n AFTER INSERT ON t BEGIN SELECT 1; END; INSERT INTO t (a) VALUES ('x')",
	"CREATE TRIGGER IF NOT EXISTS main.n BEFORE UPDATE OF a, b ON t FOR EACH ROW WHEN NEW.a <> OLD.a BEGIN INSERT INTO w VALUES (NEW.a, OLD.a) ON CONFLICT DO UPDATE SET v = 1; END; UPDATE t SET a = 'y'",
	"CREATE TRIGGER n AFTER DELETE ON s BEGIN DELETE FROM t WHERE id = OLD.id; UPDATE t SET b = b + 1; REPLACE INTO w SELECT a, id FROM t; END; DELETE FROM s WHERE id = 2",
	"CREATE TRIGGER n BEFORE DELETE ON s BEGIN SELECT RAISE(IGNORE) WHERE OLD.id = 1; SELECT CASE WHEN OLD.id = 2 THEN RAISE(ABORT, 'no') WHEN OLD.id = 3 THEN RAISE(FAIL, 'no') END; END",
	"CREATE TRIGGER n INSTEAD OF INSERT ON v BEGIN INSERT INTO t (a) VALUES (NEW.a); END; INSERT INTO v (a) VALUES ('x')",
	"CREATE TRIGGER n INSTEAD OF UPDATE ON v BEGIN UPDATE t SET a = NEW.a WHERE id = OLD.id; END; UPDATE v SET a = 'x'",
	"CREATE TRIGGER n INSTEAD OF DELETE ON v BEGIN DELETE FROM s WHERE id = OLD.id; END; DELETE FROM v",
	// lang_createview.html
	"CREATE VIEW n AS SELECT * FROM t JOIN s USING (id)",
	"CREATE VIEW IF NOT EXISTS main.n (x, y) AS SELECT kind, payload ->> 'km' FROM events UNION ALL VALUES (1, 2)",
	"CREATE VIEW n AS SELECT a, sum(b) OVER (PARTITION BY a ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), row_number() OVER w FROM t WINDOW w AS (ORDER BY id)",
	// lang_altertable.html
	"ALTER TABLE t RENAME TO u; INSERT INTO u (a) VALUES ('x')",
	"ALTER TABLE main.s RENAME TO u",
	"ALTER TABLE w RENAME TO u",
	"ALTER TABLE t RENAME COLUMN a TO z; SELECT z FROM t",
	"ALTER TABLE s RENAME a TO z",
	"ALTER TABLE t ADD COLUMN n",
	"ALTER TABLE t ADD n TEXT DEFAULT 'x' COLLATE NOCASE",
	"ALTER TABLE t ADD COLUMN n INTEGER NOT NULL DEFAULT 7 CHECK (n > 0)",
	"ALTER TABLE t ADD COLUMN n INTEGER CHECK (n > 0)",
	"ALTER TABLE t ADD COLUMN n INTEGER REFERENCES t (id)",
	"ALTER TABLE t ADD COLUMN n TEXT AS (a || '!') VIRTUAL",
	"ALTER TABLE t ADD COLUMN n TEXT NOT NULL AS (a || '!')",
	"ALTER TABLE s ADD COLUMN n TEXT",
	"ALTER TABLE s ADD COLUMN n ANY DEFAULT x'00'",
	"ALTER TABLE s ADD COLUMN n INTEGER NOT NULL DEFAULT 0 CHECK (n >= 0); UPDATE s SET n = 5",
	"ALTER TABLE s ADD COLUMN n TEXT AS (upper(a)) VIRTUAL",
	"ALTER TABLE w ADD COLUMN n INTEGER DEFAULT 3 CHECK (n > 1)",
	"ALTER TABLE t DROP COLUMN c; SELECT 1",
	"DROP TRIGGER t_insert; ALTER TABLE t DROP COLUMN c",
	"ALTER TABLE s DROP b",
	"ALTER TABLE w DROP COLUMN v",
	"ALTER TABLE s ALTER COLUMN b SET NOT NULL",
	"ALTER TABLE s ALTER a DROP NOT NULL",
	"ALTER TABLE s DROP CONSTRAINT a_given",
	"ALTER TABLE s ADD CONSTRAINT short CHECK (length(a) < 10)",
	"ALTER TABLE t ADD CHECK (b < 10)",
	// lang_droptable.html and its sisters
	"DROP TABLE child", "DROP TABLE IF EXISTS nobody", "DROP TABLE main.w", "DROP TABLE child; DROP TABLE t",
	"DROP INDEX t_a", "DROP INDEX IF EXISTS main.nobody", "DROP TRIGGER t_insert", "DROP TRIGGER IF EXISTS main.nobody",
	"DROP VIEW v", "DROP VIEW IF EXISTS main.nobody",
	// lang_analyze.html, lang_reindex.html, pragma.html
	"ANALYZE", "ANALYZE main", "ANALYZE t", "ANALYZE t_a; ANALYZE; DROP TABLE sqlite_stat1",
	"REINDEX", "REINDEX NOCASE", "REINDEX main.t", "REINDEX t_a",
	"PRAGMA table_info(t); PRAGMA table_xinfo(t); PRAGMA table_list; PRAGMA index_list(t); PRAGMA index_info(t_a); PRAGMA index_xinfo(t_a); PRAGMA foreign_key_list(child); PRAGMA foreign_key_check",
	"PRAGMA quick_check; PRAGMA integrity_check(t)",
	// lang_altertable.html, "Making Other Kinds Of Table Schema Changes"
	"CREATE TABLE new_s (id INTEGER PRIMARY KEY, a TEXT) STRICT; INSERT INTO new_s SELECT id, a FROM s; DROP TABLE s; ALTER TABLE new_s RENAME TO s; CREATE INDEX s_a ON s (a); PRAGMA foreign_key_check",
}

// ddlFTS5 needs a driver that was built with the tag sqlite_fts5.
var ddlFTS5 = []string{
	"CREATE VIRTUAL TABLE n USING fts5 (title, body, tokenize = 'porter unicode61', prefix = '2 3'); INSERT INTO n VALUES ('a', 'b'); INSERT INTO n (n) VALUES ('optimize')",
	"CREATE VIRTUAL TABLE n USING fts5 (a, content = 't', content_rowid = 'id'); INSERT INTO n (n) VALUES ('rebuild')",
	"CREATE VIRTUAL TABLE n USING fts5 (a); ALTER TABLE n RENAME TO m; DROP TABLE m",
	"CREATE VIRTUAL TABLE n USING fts5vocab (f, row)",
}

// ddlRefused is what would outlive the transaction, concern other transactions, or touch what is not the application's.
var ddlRefused = []string{
	"CREATE TEMP TABLE n (x)", "CREATE TEMPORARY VIEW n AS SELECT 1", "CREATE TEMP TRIGGER n AFTER INSERT ON t BEGIN SELECT 1; END",
	"CREATE TABLE temp.n (x)", "CREATE TABLE TEMP.events (x)", "CREATE TABLE temp.n AS SELECT 1", "CREATE VIEW temp.n AS SELECT 1",
	"CREATE TRIGGER temp.n AFTER INSERT ON t BEGIN SELECT 1; END", "CREATE VIRTUAL TABLE temp.n USING fts4 (x)", "CREATE INDEX n ON nobody (x)",
	"CREATE TABLE n (x INTEGER REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED)", "CREATE TABLE n (x UNIQUE ON CONFLICT ROLLBACK)",
	"CREATE TABLE leasehold_mine (x)", "ALTER TABLE t RENAME TO leasehold_mine", "CREATE INDEX leasehold_mine ON t (a)",
	"ALTER TABLE events ADD COLUMN n", "ALTER TABLE events ADD COLUMN n CHECK (n > 0)", "ALTER TABLE events RENAME COLUMN kind TO n", "ALTER TABLE events DROP COLUMN kind",
	"ALTER TABLE events ALTER COLUMN kind DROP NOT NULL", "ALTER TABLE events ADD CHECK (1)", "ALTER TABLE leasehold_migrations ADD COLUMN n",
	"DROP TABLE events", "DROP INDEX events_idem", "DROP TRIGGER events_no_update", "CREATE TRIGGER n BEFORE INSERT ON events BEGIN SELECT 1; END",
	"CREATE INDEX n ON leasehold_commands (ts)",
	"ATTACH 'x.db' AS x", "VACUUM", "PRAGMA writable_schema = ON", "PRAGMA foreign_keys = OFF", "PRAGMA defer_foreign_keys = ON", "PRAGMA optimize", "PRAGMA page_size = 8192",
	"ALTER TABLE v RENAME TO u", "UPDATE sqlite_schema SET sql = ''", "INSERT INTO sqlite_sequence VALUES ('t', 100)",
	"ALTER TABLE t ADD COLUMN n INTEGER CHECK (n IS NOT NULL)", "ALTER TABLE s ADD COLUMN n INTEGER DEFAULT 'text'", // a row breaks them
}

// The authorizer is asked about SQLite's own work for a statement too: the checks of ALTER TABLE ADD COLUMN, the rewriting of
// triggers and views by a rename. All of SQLite's documented DDL works in migrations, but for what is refused on purpose.
func TestW3_DDLInMigrations(t *testing.T) {
	statements := ddl
	var fts5 bool
	require.NoError(t, raw(t, ":memory:").QueryRow("SELECT count(*) > 0 FROM pragma_module_list WHERE name = 'fts5'").Scan(&fts5))
	if fts5 {
		statements = append(append([]string{}, ddl...), ddlFTS5...)
	}
	for _, statement := range statements {
		l := launch(t, ddlMigration(statement))
		if err := (<-l.opened).Err; err != nil {
			t.Errorf("%s: %v", statement, err)
			l.stop()
			continue
		}
		_, err := l.Append(t.Context(), event("x"))
		require.NoError(t, err, statement)
		l.stop()
		_, err = ledgeractor.Verify(t.Context(), l.path, testKey)
		require.NoError(t, err, statement)
	}
	for _, statement := range ddlRefused {
		l := launch(t, ddlMigration(statement))
		err := (<-l.opened).Err
		require.Error(t, err, statement)
		requireCode(t, err, messages.CodeSQL)
		l.stop()
	}
}

// The same in a transaction of its own, and prepared.
func TestW3_DDLInTransactions(t *testing.T) {
	l := start(t, func(c *ledgeractor.Config) {
		c.Migrations = []ledgeractor.Migration{{Version: 1, Name: "before", SQL: ddlBefore}}
	})
	for _, statement := range ddl {
		err := l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
			if _, err := tx.ExecContext(tx.Context(), statement); err != nil {
				return err
			}
			return context.Canceled // the next one finds the tables as they were
		})
		require.ErrorIs(t, err, context.Canceled, statement)
		if strings.Contains(statement, ";") {
			continue
		}
		err = l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
			prepared, err := tx.PrepareContext(tx.Context(), statement)
			if err != nil {
				return err
			}
			if _, err := prepared.ExecContext(tx.Context()); err != nil {
				return err
			}
			return context.Canceled
		})
		require.ErrorIs(t, err, context.Canceled, statement)
	}
}

func ddlMigration(statement string) func(*ledgeractor.Config) {
	return func(c *ledgeractor.Config) {
		c.Migrations = []ledgeractor.Migration{{Version: 1, Name: "before", SQL: ddlBefore}, {Version: 2, Name: "the statement", SQL: statement}}
	}
}
