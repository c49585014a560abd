package ledgeractor

import (
	"strings"

	"github.com/mattn/go-sqlite3"
)

// SQLite asks an authorizer about each thing that a statement would do, when it is prepared; see
// https://www.sqlite.org/c3ref/set_authorizer.html for the operations and their arguments.

// opRecursive is SQLITE_RECURSIVE, which the driver does not name.
const opRecursive = 33

// ownPrefix begins the names of all our objects in the schema but those of events.
const ownPrefix = "leasehold_"

// ownNames are our objects in the schema, in lower case, that do not begin with ownPrefix.
var ownNames = map[string]bool{
	"events": true, "events_idem": true, "events_no_update": true, "events_no_delete": true, "events_no_replace": true,
}

func ours(name string) bool {
	name = strings.ToLower(name)
	return ownNames[name] || strings.HasPrefix(name, ownPrefix)
}

// internal reports whether a table is ours and no business of the application's. An index on it could
// make its next row fail; on events that is the application's own affair.
func internal(table string) bool { return ours(table) && !strings.EqualFold(table, "events") }

// readPragmas tell about the database and change nothing. ALTER TABLE … ADD COLUMN uses quick_check itself, to see whether
// the rows that there are satisfy the new column's constraints and type.
var readPragmas = names("table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list foreign_key_check quick_check integrity_check")

// settingPragmas tell about the database too, but with a value they would change it. The modules of rtree and FTS5 ask them.
var settingPragmas = names("page_size page_count data_version")

// readAuthorizer allows what a plain SELECT needs.
func readAuthorizer(op int, _, arg2, _ string) int {
	switch op {
	case sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, opRecursive:
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_FUNCTION:
		if readMayCall(arg2) {
			return sqlite3.SQLITE_OK
		}
	}
	return sqlite3.SQLITE_DENY
}

// appAuthorizer allows what application code may do inside a transaction: everything with its own
// tables, reading ours, and indexing them.
type appAuthorizer struct {
	altering bool // an ALTER TABLE was allowed in this call; it may rename a row of sqlite_sequence
}

func (a *appAuthorizer) check(op int, arg1, arg2, arg3 string) int {
	if !createsTemporary(op, arg3) && a.allowed(op, arg1, arg2) {
		return sqlite3.SQLITE_OK
	}
	return sqlite3.SQLITE_DENY
}

func (a *appAuthorizer) allowed(op int, arg1, arg2 string) bool {
	switch op {
	case sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, opRecursive, sqlite3.SQLITE_REINDEX, sqlite3.SQLITE_ANALYZE,
		sqlite3.SQLITE_CREATE_INDEX:
		return op != sqlite3.SQLITE_CREATE_INDEX || !ours(arg1) && !internal(arg2)
	case sqlite3.SQLITE_FUNCTION:
		return codeMayCall(arg2)
	case sqlite3.SQLITE_PRAGMA:
		pragma := strings.ToLower(arg1)
		return readPragmas[pragma] || settingPragmas[pragma] && arg2 == ""
	case sqlite3.SQLITE_INSERT:
		return !ours(arg1) && !isSequence(arg1)
	case sqlite3.SQLITE_UPDATE:
		return !ours(arg1) && (!isSequence(arg1) || a.altering && strings.EqualFold(arg2, "name"))
	case sqlite3.SQLITE_DELETE:
		// DROP TABLE deletes from sqlite_sequence. For events that would be harmless: it is
		// append-only, so its largest rowid says the same.
		return !ours(arg1)
	case sqlite3.SQLITE_ALTER_TABLE:
		a.altering = !ours(arg2)
		return a.altering
	case sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_INDEX,
		sqlite3.SQLITE_DROP_VIEW, sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_DROP_VTABLE:
		return !ours(arg1)
	case sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_DROP_TRIGGER:
		// A trigger on events could make an append do nothing.
		return !ours(arg1) && !ours(arg2)
	}
	// ATTACH, DETACH, TRANSACTION, SAVEPOINT, everything temporary (it would outlive the transaction,
	// and could hide events), and what SQLite may add.
	return false
}

// createsTemporary reports whether something is made in the temporary database, or written there. SQLite has operations of
// their own for CREATE TEMP, and none for CREATE TABLE temp.x.
func createsTemporary(op int, database string) bool {
	switch op {
	case sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_CREATE_TRIGGER,
		sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_INSERT:
		return strings.EqualFold(database, "temp")
	}
	return false
}

func isSequence(table string) bool { return strings.EqualFold(table, "sqlite_sequence") }
