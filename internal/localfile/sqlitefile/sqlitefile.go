// Package sqlitefile says what the operating system has against a file of SQLite: see package localfile.
//
// A newcomer starts with [Cause].
package sqlitefile

import (
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/localfile"
)

// maxPath is the longest path that SQLite takes in bytes, with journal.
const maxPath, journal = 512, "-journal"

// CheckPath returns CodeInvalidArgument if SQLite cannot open databases at path, because it is too long: see localfile.CheckPath.
func CheckPath(what, path, below string) error {
	return localfile.CheckPath(what, path, below+journal, maxPath)
}

// Cause returns what the operating system had against the database at path, or a file beside it, in words; "": that is not
// known, or has no name. SQLite itself says no more than "unable to open database file".
func Cause(err sqlite3.Error, path string) string {
	switch err.Code & 0xff { // a backup gives the extended code
	case sqlite3.ErrFull: // of a write; SQLite does not keep its errno
		return localfile.DiskFull
	case sqlite3.ErrCantOpen:
		if CheckPath("", path, "") != nil { // no system call has failed
			return localfile.PathTooLong
		}
		if err.SystemErrno == syscall.ENOENT {
			return whyNotCreated(path)
		}
	case sqlite3.ErrIoErr:
	default:
		return ""
	}
	return localfile.Cause(&fs.PathError{Path: path, Err: err.SystemErrno})
}

// whyNotCreated finds out again why SQLite could not create a file beside path: it has tried to open it without creating it then, and
// keeps only that there is none.
func whyNotCreated(path string) string {
	if localfile.LacksInodes(path) {
		return localfile.NoInodes
	}
	return localfile.Cause(unix.Access(filepath.Dir(path), unix.W_OK))
}
