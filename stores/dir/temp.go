package dir

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/leasehold/leasehold/internal/lockfile"
	"github.com/leasehold/leasehold/messages"
)

const (
	tempName   = ".tmp"
	lockSuffix = ".lock"
)

// tempDir is one Store's own part of the directory for temporary files: <root>/.tmp/<id>/, guarded by
// a lock (flock) on <root>/.tmp/<id>.lock. The kernel drops the lock when the process dies, however it
// dies; so whoever can take the lock may delete the part. No process id can be mistaken for another
// (containers), and no clock is asked for an age.
type tempDir struct {
	path string
	lock *os.File
	info os.FileInfo // of lock
}

// openTemp also says whether it has created parent.
func openTemp(parent string) (t *tempDir, made bool, err error) {
	sweepTemp(parent)
	for {
		err := os.Mkdir(parent, 0o700)
		if made = made || err == nil; err != nil && !errors.Is(err, os.ErrExist) {
			return nil, made, err
		}
		path := filepath.Join(parent, rand.Text())
		// The lock file comes first, so that there is never a part without one.
		lock, ok, err := lockfile.Take(path+lockSuffix, os.O_CREATE|os.O_EXCL)
		if errors.Is(err, os.ErrNotExist) {
			continue // somebody who was refused has removed the parent
		}
		if err != nil {
			return nil, made, err
		}
		if !ok {
			continue // a sweep was faster and takes it for a dead one's
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, made, errors.Join(err, os.Remove(lock.Name()), lock.Close())
		}
		info, err := lock.Stat()
		if err != nil {
			return nil, made, errors.Join(err, os.Remove(path), os.Remove(lock.Name()), lock.Close())
		}
		return &tempDir{path: path, lock: lock, info: info}, made, nil
	}
}

// sweepTemp removes the parts of dead processes. What it cannot remove stays for the next Open: it is
// never listed, and costs only space.
func sweepTemp(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), lockSuffix)
		if !ok {
			continue
		}
		lock, ok, err := lockfile.Take(filepath.Join(parent, e.Name()), 0)
		if err != nil || !ok {
			continue
		}
		// The lock file goes last: if this is cut off, the next sweep still finds the part.
		if os.RemoveAll(filepath.Join(parent, id)) == nil {
			_ = os.Remove(lock.Name())
		}
		_ = lock.Close()
	}
}

// create makes a new, empty temporary file.
func (t *tempDir) create() (*os.File, error) {
	return os.OpenFile(filepath.Join(t.path, rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// probe makes sure that the file system can do what a put relies on.
func (t *tempDir) probe() error {
	f, err := t.create()
	if err != nil {
		return err
	}
	linked := f.Name() + "-link"
	return errors.Join(f.Close(), os.Link(f.Name(), linked), os.Remove(linked), os.Remove(f.Name()))
}

// moved returns an error if the lock file, which nobody removes as long as it is locked, is not where it was made: the
// directory was deleted, replaced, unmounted, or has another one mounted on top. What is there then is empty, or of others, and looks
// like a store that lost everything.
func (t *tempDir) moved(root string) error {
	now, err := os.Stat(t.lock.Name())
	if err == nil && os.SameFile(t.info, now) || err != nil && !isAbsent(err) {
		return nil
	}
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeDeploymentMismatch, Object: root,
		Message: "the directory was deleted, replaced or unmounted while it was in use", Err: err}
}

func (t *tempDir) close() error {
	return errors.Join(os.RemoveAll(t.path), os.Remove(t.lock.Name()), t.lock.Close())
}
