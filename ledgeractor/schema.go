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

// schemaObject is one entry of sqlite_schema that is ours. SQLite keeps the text as it was given,
// so that it can be compared.
type schemaObject struct{ name, sql string }

// schemaOf returns our schema for one tenant, in the order of creation. Changing a character of it
// makes existing ledgers unreadable: it needs a new format.
func schemaOf(key messages.Key) []schemaObject {
	return []schemaObject{
		// The tenant is part of the constraint, so that no row of another tenant can ever be in here.
		{"events", `CREATE TABLE events (
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
		{"events_idem", `CREATE UNIQUE INDEX events_idem ON events (tenant_id, idem_key) WHERE idem_key IS NOT NULL`},
		{"events_no_update", `CREATE TRIGGER events_no_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events is append-only'); END`},
		{"events_no_delete", `CREATE TRIGGER events_no_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events is append-only'); END`},
		// REPLACE deletes the old row without firing a delete trigger.
		{"events_no_replace", `CREATE TRIGGER events_no_replace BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE seq = NEW.seq)
  OR NEW.idem_key IS NOT NULL AND EXISTS (SELECT 1 FROM events WHERE tenant_id = NEW.tenant_id AND idem_key = NEW.idem_key)
BEGIN SELECT RAISE(ABORT, 'events is append-only'); END`},
		{"leasehold_migrations", `CREATE TABLE leasehold_migrations (
  version INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  applied_at TEXT NOT NULL
) STRICT`},
	}
}

// createSchema creates our objects in an empty database, inside a transaction.
func createSchema(ctx context.Context, raw *sqlite3.SQLiteConn, key messages.Key) error {
	for _, o := range schemaOf(key) {
		if _, err := raw.ExecContext(ctx, o.sql, nil); err != nil {
			return err
		}
	}
	_, err := raw.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID), nil)
	return err
}

// checkSchema returns what is wrong with our objects, "" if nothing is.
func checkSchema(ctx context.Context, raw *sqlite3.SQLiteConn, key messages.Key) (defect string, err error) {
	id, err := queryInt(ctx, raw, "PRAGMA application_id")
	if err != nil {
		return "", err
	}
	if id != applicationID {
		return "the file is not a ledger", nil
	}
	want := make(map[string]string)
	for _, o := range schemaOf(key) {
		want[o.name] = o.sql
	}
	err = eachRow(ctx, raw, "SELECT type, name, tbl_name, sql FROM sqlite_schema", nil, func(row []driver.Value) error {
		kind, _ := row[0].(string)
		name, _ := row[1].(string)
		table, _ := row[2].(string)
		text, _ := row[3].(string)
		switch expected, own := want[name]; {
		case own && text != expected && strings.HasPrefix(name, "events") && kind == "table":
			defect = "table events is another tenant's, or was altered"
		case own && text != expected:
			defect = name + " was altered"
		case own:
			delete(want, name)
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
	return defect, err
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
	rows, err := raw.QueryContext(ctx, query, args)
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
