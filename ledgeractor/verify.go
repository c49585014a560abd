package ledgeractor

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// Summary is what Verify found in a ledger.
type Summary struct {
	Events  int64 // rows in events
	LastSeq int64 // of the last event; 0: none
	Applied []Applied
}

// sqliteMagic begins every SQLite database file.
const sqliteMagic = "SQLite format 3\x00"

// Verify checks a ledger file that no process has open: SQLite's integrity, our schema with its
// triggers, and the tenant of every row. Any defect is CodeCorrupt, naming the file; a file that
// cannot be read is CodeStorage; one with a write-ahead log beside it is CodeInvalidArgument, one that only a newer
// version of Leasehold understands CodeIncapable. It changes nothing and leaves no files behind.
func Verify(ctx context.Context, path string, key messages.Key) (Summary, error) {
	if err := key.Validate(); err != nil {
		return Summary{}, err
	}
	if err := ctx.Err(); err != nil {
		return Summary{}, messages.AsError(err)
	}
	fail := newFailures(key, path)
	if err := checkMagic(path, fail); err != nil {
		return Summary{}, err
	}
	if exists(path + "-wal") {
		return Summary{}, invalid("the file has a write-ahead log: it is in use, or was not closed")
	}
	summary, defect, err := verify(ctx, path, key)
	if err != nil {
		err = fail.typed(err)
		switch messages.CodeOf(err) {
		case messages.CodeStorage, messages.CodeDeadlineExceeded, messages.CodeCanceled:
			return Summary{}, err
		case messages.CodeCorrupt, messages.CodeInvalidArgument, messages.CodeIncapable:
			return Summary{}, err
		}
		// A damaged file can make any statement fail in any way.
		return Summary{}, &messages.Error{Code: messages.CodeCorrupt, Key: fail.key, Object: fail.file, Message: "the file cannot be read as a ledger", Err: err}
	}
	if defect != "" {
		return Summary{}, fail.broken(defect)
	}
	return summary, nil
}

func checkMagic(path string, fail failures) error {
	file, err := os.Open(path)
	if err != nil {
		return fail.storage("open the file", err)
	}
	defer file.Close()
	var magic [len(sqliteMagic)]byte
	switch _, err := io.ReadFull(file, magic[:]); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fail.broken("the file is too short for a database")
	case err != nil:
		return fail.storage("read the file", err)
	case string(magic[:]) != sqliteMagic:
		return fail.broken("the file is not a database")
	}
	return nil
}

func verify(ctx context.Context, path string, key messages.Key) (s Summary, defect string, err error) {
	if !tempDirChosen.Load() { // a tool, not a node
		if err := UseTempDir(filepath.Dir(path)); err != nil {
			return s, "", err
		}
	}
	// immutable: SQLite neither locks the file nor makes -wal and -shm files beside it.
	raw, err := openSQLite(path, map[string]string{"mode": "ro", "immutable": "1", "_query_only": "1"})
	if err != nil {
		return s, "", err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	if _, err := raw.ExecContext(ctx, "PRAGMA trusted_schema = OFF", nil); err != nil {
		return s, "", err
	}
	raw.SetLimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
	return verifyConn(ctx, raw, key)
}

// verifyConn checks a whole ledger.
func verifyConn(ctx context.Context, raw *sqlite3.SQLiteConn, key messages.Key) (s Summary, defect string, err error) {
	// The schema first: the integrity check evaluates what the schema says. (Not its CHECK constraints,
	// on a read-only connection; so the tenants are looked at below.)
	version, defect, err := checkSchema(ctx, raw, key)
	if err != nil || defect != "" {
		return s, defect, err
	}
	sound := false
	if err := eachRow(ctx, raw, "PRAGMA integrity_check(1)", nil, func(row []driver.Value) error {
		sound = row[0] == "ok"
		return nil
	}); err != nil {
		return s, "", err
	}
	if !sound {
		return s, "the integrity check found damage", nil
	}
	foreign := int64(0)
	const rows = "SELECT count(*), coalesce(max(seq), 0), coalesce(sum(tenant_id <> ?), 0) FROM main.events"
	if err := eachRow(ctx, raw, rows, named([]driver.Value{string(key.Tenant)}), func(row []driver.Value) error {
		s.Events, _ = row[0].(int64)
		s.LastSeq, _ = row[1].(int64)
		foreign, _ = row[2].(int64)
		return nil
	}); err != nil {
		return s, "", err
	}
	if foreign == 0 && version >= 1 {
		if foreign, err = countForeignCommands(ctx, raw, key); err != nil {
			return s, "", err
		}
	}
	if foreign != 0 {
		return s, "a row is another tenant's", nil
	}
	s.Applied, err = readApplied(ctx, raw)
	return s, "", err
}
