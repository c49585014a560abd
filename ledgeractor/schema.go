package ledgeractor

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// applicationID marks a ledger in the file's header: "LHLD".
const applicationID = 0x4c484c44

// schemaVersion is the version of the schema below. It stands in the file's header as user_version,
// so that an object which is not there yet can be told from one that has gone missing.
//
//	0  events and leasehold_migrations
//	1  and leasehold_commands
const schemaVersion = 1

// schemaObject is one entry of sqlite_schema that is ours. SQLite keeps the text as it was given,
// so that it can be compared.
type schemaObject struct {
	since     int64 // the version of the schema that brought it
	name, sql string
}

// schemaOf returns our schema for one tenant, in the order of creation. Changing a character of what
// has a version already makes existing ledgers unreadable; objects can only be added, by a new version.
func schemaOf(key messages.Key) []schemaObject {
	return []schemaObject{
		// The tenant is part of the constraint, so that no row of another tenant can ever be in here.
		{0, "events", `CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT CHECK (seq > 0),
  tenant_id TEXT NOT NULL CHECK (tenant_id = '` + string(key.Tenant) + `'),
  ts TEXT NOT NULL,
  actor TEXT,
  kind TEXT NOT NULL CHECK (kind <> ''),
  subject_id TEXT,
  payload TEXT NOT NULL CHECK (json_valid(payload)),
  idem_key TEXT CHECK (idem_key <> ''),
  run_id TEXT
) STRICT`},
		{0, "events_idem", `CREATE UNIQUE INDEX events_idem ON events (tenant_id, idem_key) WHERE idem_key IS NOT NULL`},
		{0, "events_no_update", `CREATE TRIGGER events_no_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events is append-only'); END`},
		{0, "events_no_delete", `CREATE TRIGGER events_no_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events is append-only'); END`},
		// REPLACE deletes the old row without firing a delete trigger.
		{0, "events_no_replace", `CREATE TRIGGER events_no_replace BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE seq = NEW.seq)
  OR NEW.idem_key IS NOT NULL AND EXISTS (SELECT 1 FROM events WHERE tenant_id = NEW.tenant_id AND idem_key = NEW.idem_key)
BEGIN SELECT RAISE(ABORT, 'events is append-only'); END`},
		{0, "leasehold_migrations", `CREATE TABLE leasehold_migrations (
  version INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  compatible_since INTEGER NOT NULL,
  applied_at TEXT NOT NULL
) STRICT`},
		// Commands that ran under an idempotency key, with what they answered. input_sha256 is lower-case hex.
		{1, "leasehold_commands", `CREATE TABLE leasehold_commands (
  seq INTEGER PRIMARY KEY CHECK (seq > 0),
  tenant_id TEXT NOT NULL CHECK (tenant_id = '` + string(key.Tenant) + `'),
  ts TEXT NOT NULL,
  idem_key TEXT NOT NULL CHECK (idem_key <> ''),
  command TEXT NOT NULL CHECK (command <> ''),
  input_sha256 TEXT NOT NULL CHECK (length(input_sha256) = 64),
  output TEXT NOT NULL CHECK (output <> ''),
  UNIQUE (tenant_id, idem_key)
) STRICT`},
		{1, "leasehold_commands_no_update", `CREATE TRIGGER leasehold_commands_no_update BEFORE UPDATE ON leasehold_commands
BEGIN SELECT RAISE(ABORT, 'leasehold_commands is append-only'); END`},
		{1, "leasehold_commands_no_delete", `CREATE TRIGGER leasehold_commands_no_delete BEFORE DELETE ON leasehold_commands
BEGIN SELECT RAISE(ABORT, 'leasehold_commands is append-only'); END`},
		{1, "leasehold_commands_no_replace", `CREATE TRIGGER leasehold_commands_no_replace BEFORE INSERT ON leasehold_commands
WHEN EXISTS (SELECT 1 FROM leasehold_commands WHERE seq = NEW.seq)
  OR EXISTS (SELECT 1 FROM leasehold_commands WHERE tenant_id = NEW.tenant_id AND idem_key = NEW.idem_key)
BEGIN SELECT RAISE(ABORT, 'leasehold_commands is append-only'); END`},
	}
}

// createSchema brings a database from a version of our schema to the present one, in a transaction.
// from is -1 for an empty database. After an error the connection must be closed, which rolls back.
func createSchema(ctx context.Context, raw *sqlite3.SQLiteConn, key messages.Key, from int64) error {
	statements := []string{"BEGIN IMMEDIATE"}
	for _, o := range schemaOf(key) {
		if o.since > from {
			statements = append(statements, o.sql)
		}
	}
	statements = append(statements, fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", schemaVersion), "COMMIT")
	for _, s := range statements {
		if _, err := raw.ExecContext(ctx, s, nil); err != nil {
			return err
		}
	}
	return nil
}

// checkSchema returns the version of our schema, and what is wrong with our objects, "" if nothing is.
// A version that is not known yet is CodeIncapable: nothing can be said about such a ledger, and
// nobody must throw it away as corrupt.
func checkSchema(ctx context.Context, raw *sqlite3.SQLiteConn, key messages.Key) (version int64, defect string, err error) {
	id, err := queryInt(ctx, raw, "PRAGMA application_id")
	if err != nil {
		return 0, "", err
	}
	if id != applicationID {
		return 0, "the file is not a ledger", nil
	}
	version, err = queryInt(ctx, raw, "PRAGMA user_version")
	switch {
	case err != nil:
		return 0, "", err
	case version < 0:
		return version, "the version of the schema is negative", nil
	case version > schemaVersion:
		return version, "", &messages.Error{Code: messages.CodeIncapable, Key: key.String(),
			Message: fmt.Sprintf("the ledger has schema version %d; a newer version of Leasehold is needed to open it", version)}
	}
	want, early := make(map[string]string), make(map[string]bool)
	for _, o := range schemaOf(key) {
		if o.since <= version {
			want[o.name] = o.sql
		} else {
			early[o.name] = true
		}
	}
	err = eachRow(ctx, raw, "SELECT type, name, tbl_name, sql FROM sqlite_schema", nil, func(row []driver.Value) error {
		kind, _ := row[0].(string)
		name, _ := row[1].(string)
		table, _ := row[2].(string)
		text, _ := row[3].(string)
		switch expected, own := want[name]; {
		case own && text != expected && kind == "table" && strings.Contains(expected, string(key.Tenant)):
			defect = "table " + name + " is another tenant's, or was altered"
		case own && text != expected:
			defect = name + " was altered"
		case own:
			delete(want, name)
		case early[strings.ToLower(name)]:
			defect = name + " does not belong to this version of the schema"
		case kind == "trigger" && ours(table):
			defect = "table " + strings.ToLower(table) + " has a foreign trigger"
		}
		return nil
	})
	for name := range want {
		if defect == "" {
			defect = name + " is missing"
		}
	}
	return version, defect, err
}

// countEvents counts the rows of events and finds the last seq.
func countEvents(ctx context.Context, raw *sqlite3.SQLiteConn) (events, last int64, err error) {
	err = eachRow(ctx, raw, "SELECT count(*), coalesce(max(seq), 0) FROM main.events", nil, func(row []driver.Value) error {
		events, _ = row[0].(int64)
		last, _ = row[1].(int64)
		return nil
	})
	return events, last, err
}

// queryInt returns the first column of the first row as an integer.
func queryInt(ctx context.Context, raw *sqlite3.SQLiteConn, query string) (n int64, err error) {
	err = eachRow(ctx, raw, query, nil, func(row []driver.Value) error {
		n, _ = row[0].(int64)
		return nil
	})
	return n, err
}

// eachRow calls f with each row; the slice is reused.
func eachRow(ctx context.Context, raw *sqlite3.SQLiteConn, query string, args []driver.NamedValue, f func([]driver.Value) error) (err error) {
	rows, err := storedRows(raw.QueryContext(ctx, query, args))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(row); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := f(row); err != nil {
			return err
		}
	}
}
