package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/leasehold/leasehold/internal/fsync"
	"github.com/leasehold/leasehold/messages"
)

// minFile is the smallest page of a SQLite file. SQLite takes a file of a few bytes for an empty one,
// and would overwrite it.
const minFile = 512

var errTooShort = errors.New("it is not empty, and too short for a SQLite file")

func (s *Store) openUsers() (*os.File, error) {
	name := s.path + usersSuffix
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		s.created = append(s.created, name)
	}
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	}
	return f, err
}

// usersRemoved returns an error if the file of the users is not the one that is locked any more: somebody has discarded the lease file
// while it was opened here.
func (s *Store) usersRemoved() error {
	mine, err := s.users.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Stat(s.users.Name()); err != nil || !os.SameFile(mine, named) {
		return &messages.Error{Code: messages.CodeUnavailable, Object: s.path, Message: "the lease file was removed while it was opened", Err: err}
	}
	return nil
}

// ensureFile creates the file and its folder, durably, and returns what it has created. A file that is there may have
// been created a moment ago, by somebody who has not synced its name yet.
func ensureFile(path string, noSync bool) (created []string, err error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Mode().IsRegular() && info.Size() > 0 && info.Size() < minFile:
		return nil, errTooShort
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	dir := filepath.Dir(path)
	if noSync {
		err = os.MkdirAll(dir, 0o700)
	} else {
		created, err = fsync.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		err = nil
	case err != nil:
		return nil, errors.Join(err, fsync.Remove(created))
	default:
		created = append(created, path)
		err = f.Close()
	}
	if err == nil && !noSync {
		err = fsync.Folder(dir) // SQLite does so for its WAL, but not for a database file that it did not create
	}
	return created, err
}

// unused reports whether nobody else has the file open, and nothing is in it that was not there before.
func (s *Store) unused() bool {
	if flock(s.users, syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false
	}
	if s.file == nil || !slices.Contains(s.created, s.path) {
		return true // it was not opened as a lease store, or stays
	}
	var used bool
	err := s.writer.QueryRowContext(context.Background(), `SELECT EXISTS (SELECT 1 FROM leases) OR EXISTS (SELECT 1 FROM store WHERE deployment <> '')`).Scan(&used)
	return err == nil && !used
}
