package actors

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/leasehold/leasehold/internal/fsync"
	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/internal/lockfile"
	"github.com/leasehold/leasehold/internal/smallfile"
	"github.com/leasehold/leasehold/messages"
)

const (
	lockFile = "node.lock"
	// lockAttempts bounds how often a lock file is looked for that others remove meanwhile.
	lockAttempts = 100
)

// RootLock is a state root that this process has to itself. Its methods are safe for concurrent use.
type RootLock struct {
	root    string
	file    *os.File
	created []string // folders that were made for it, and removed with it by Discard
	fresh   bool     // the lock file was not there before

	once sync.Once
	err  error
}

// LockRoot creates a state root, durably, and takes its lock, so that no other node uses it: for a program that keeps something else
// in the state root, which must not be touched before. Pass it as Config.Lock. The error is CodeHeld if another node uses the state
// root, and names its process, CodeInvalidArgument if its path is too long, and CodeStorage if the state root cannot be used. A refusal leaves nothing behind.
func LockRoot(root string) (*RootLock, error) {
	failed := func(err error) error {
		return &messages.Error{Code: messages.CodeStorage, Object: root, Message: localfile.Because("the state root cannot be created or locked", err), Err: err}
	}
	root, err := filepath.Abs(root) // it must not change its meaning with the working directory
	if err != nil {
		return nil, failed(err)
	}
	if err := checkRoot(root); err != nil {
		return nil, err
	}
	l := &RootLock{root: root}
	if l.created, err = fsync.MkdirAll(root, 0o700); err != nil {
		return nil, failed(err)
	}
	path := filepath.Join(root, lockFile)
	for range lockAttempts {
		_, err := os.Lstat(path)
		l.fresh = errors.Is(err, fs.ErrNotExist)
		file, ok, err := lockfile.Take(path, os.O_CREATE)
		if err != nil {
			return nil, errors.Join(failed(err), fsync.Remove(l.created))
		}
		if ok {
			l.file = file
			if err := l.sign(); err != nil {
				return nil, errors.Join(failed(err), l.Discard())
			}
			return l, nil
		}
		holder, err := smallfile.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a refused start has removed it
		}
		return nil, &messages.Error{Code: messages.CodeHeld, Object: path, Err: err,
			Message: "another node uses this state root: " + cmp.Or(strings.TrimSpace(string(holder)), "one that has just begun")}
	}
	return nil, failed(errors.New("others create and remove its lock file all the time"))
}

// sign writes down who holds the lock, for whoever is refused.
func (l *RootLock) sign() error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	text := fmt.Sprintf("process %d on the host %s\n", os.Getpid(), host)
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt([]byte(text), 0)
	return err
}

// Root returns the absolute path of the state root.
func (l *RootLock) Root() string { return l.root }

// folder creates a folder in the state root, which Discard removes if it is empty then.
func (l *RootLock) folder(name string) (string, error) {
	created, err := fsync.MkdirAll(filepath.Join(l.root, name), 0o700)
	l.created = append(l.created, created...)
	return filepath.Join(l.root, name), err
}

// Close gives the lock up. Closing twice is fine.
func (l *RootLock) Close() error { return l.end(false) }

// Discard gives the lock up and removes what LockRoot created, as far as nobody has put anything into it: for a start that was
// refused. After Close it does nothing.
func (l *RootLock) Discard() error { return l.end(true) }

func (l *RootLock) end(discard bool) error {
	l.once.Do(func() {
		// Whoever reads it from now on has not been refused by this process.
		l.err = l.file.Truncate(0)
		if discard && l.fresh {
			if err := os.Remove(l.file.Name()); !errors.Is(err, fs.ErrNotExist) { // before the lock ends, so that it is still this one
				l.err = errors.Join(l.err, err)
			}
		}
		l.err = errors.Join(l.err, l.file.Close())
		if discard {
			l.err = errors.Join(l.err, fsync.Remove(l.created))
		}
	})
	return l.err
}
