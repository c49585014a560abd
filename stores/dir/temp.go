package dir

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
}

func openTemp(parent string) (*tempDir, error) {
	if err := os.Mkdir(parent, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	sweepTemp(parent)
	for {
		path := filepath.Join(parent, rand.Text())
		// The lock file comes first, so that there is never a part without one.
		lock, ok, err := takeLock(path+lockSuffix, os.O_CREATE|os.O_EXCL)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // a sweep was faster and takes it for a dead one's
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, errors.Join(err, os.Remove(lock.Name()), lock.Close())
		}
		return &tempDir{path: path, lock: lock}, nil
	}
}

// takeLock opens and locks a lock file. ok is false if somebody else holds the lock, or has removed
// the file in the meantime.
func takeLock(name string, flags int) (f *os.File, ok bool, err error) {
	f, err = os.OpenFile(name, os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, false, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = nil
		}
		return nil, false, errors.Join(err, f.Close())
	}
	mine, err1 := f.Stat()
	named, err2 := os.Stat(name)
	if err1 != nil || err2 != nil || !os.SameFile(mine, named) {
		return nil, false, f.Close()
	}
	return f, true, nil
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
		lock, ok, err := takeLock(filepath.Join(parent, e.Name()), 0)
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

func (t *tempDir) close() error {
	return errors.Join(os.RemoveAll(t.path), os.Remove(t.lock.Name()), t.lock.Close())
}
