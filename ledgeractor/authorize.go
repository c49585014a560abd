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

// unsafeFunctions reach outside the database.
var unsafeFunctions = map[string]bool{
	"load_extension": true, "readfile": true, "writefile": true, "edit": true, "fts3_tokenizer": true, "lsmode": true,
}

// slowFunctions take quadratic time, cannot be interrupted, and have no replacement of ours (see
// linear.go): reads do without them.
var slowFunctions = map[string]bool{"json_patch": true, "jsonb_patch": true}

// readPragmas tell about the schema and change nothing.
var readPragmas = map[string]bool{
	"table_info": true, "table_xinfo": true, "table_list": true, "index_list": true, "index_info": true,
	"index_xinfo": true, "foreign_key_list": true, "foreign_key_check": true,
}

// readAuthorizer allows what a plain SELECT needs.
func readAuthorizer(op int, _, arg2, _ string) int {
	switch op {
	case sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, opRecursive:
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_FUNCTION:
		if name := strings.ToLower(arg2); !unsafeFunctions[name] && !slowFunctions[name] {
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

func (a *appAuthorizer) check(op int, arg1, arg2, _ string) int {
	if a.allowed(op, arg1, arg2) {
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
		return !unsafeFunctions[strings.ToLower(arg2)]
	case sqlite3.SQLITE_PRAGMA:
		return readPragmas[strings.ToLower(arg1)]
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

func isSequence(table string) bool { return strings.EqualFold(table, "sqlite_sequence") }
