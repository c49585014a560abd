package ledgeractor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
)

// tempDirChosen says that the folder of SQLite's temporary files is not SQLite's own choice any more.
var tempDirChosen atomic.Bool

// UseTempDir makes SQLite put the temporary files of this whole process into a folder, whatever the environment says, and creates
// that if need be: what ledgers are stored with should not depend on a /tmp that is full, or shared. (They have no names, so that
// a crash leaves none behind.) The last call counts. A folder that cannot be used is CodeStorage. See
// https://www.sqlite.org/pragma.html#pragma_temp_store_directory.
func UseTempDir(folder string) error {
	failed := func(err error) error {
		return &messages.Error{Code: messages.CodeStorage, Object: filepath.Base(folder), Message: localfile.Because("SQLite's temporary files cannot be put there", err), Err: err}
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return failed(err)
	}
	conn, err := (&sqlite3.SQLiteDriver{}).Open(":memory:")
	if err != nil {
		return failed(err)
	}
	raw := conn.(*sqlite3.SQLiteConn)
	defer func() { _ = raw.Close() }() // it holds nothing
	quoted := "'" + strings.ReplaceAll(folder, "'", "''") + "'"
	if _, err := raw.ExecContext(context.Background(), "PRAGMA temp_store_directory = "+quoted, nil); err != nil {
		return failed(err)
	}
	tempDirChosen.Store(true)
	return nil
}
