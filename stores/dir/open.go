package dir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Config says where a directory store is. Only Root is needed.
type Config struct {
	// Root is the directory. It is created if it does not exist (mode 0700).
	Root string
	// NoSync leaves fsync out. A power cut can then lose objects whose put had succeeded, which the
	// protocol does not survive: it is for tests and simulation.
	NoSync bool
}

// Store is a durable store on one directory. It is safe for concurrent use, and for use together with
// other Stores on the same directory, in this and in other processes.
type Store struct {
	root   string
	noSync bool
	temp   *tempDir
	synced func(path string) // told of every fsync, for tests; may be nil

	mu     sync.Mutex
	closed bool
	// landing holds the keys that a put of this Store has made visible, but not durable yet. Get waits
	// for them: a caller that reads its own lost answer back may then rely on it.
	landing map[string]*landing
}

var _ stores.DurableStore = (*Store)(nil)

// Open opens the store, and creates its directory if it does not exist. It removes what processes that
// are dead left in the directory for temporary files; a process is known to be dead when its lock
// on its own part of that directory is gone. The errors are CodeInvalidArgument for an empty Root, and
// CodeStorage for a directory that cannot be used: not writable, or on a file system without hard links.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Root == "" {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "a directory store needs a root"}
	}
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	root, err := filepath.Abs(cfg.Root)
	if err != nil {
		return nil, storageError(err, cfg.Root, "no absolute path")
	}
	s := &Store{root: root, noSync: cfg.NoSync, landing: map[string]*landing{}}
	if err := s.makeRoot(); err != nil {
		return nil, storageError(err, root, "cannot create the directory")
	}
	if s.temp, err = openTemp(filepath.Join(root, tempName)); err != nil {
		return nil, storageError(err, root, "cannot create temporary files")
	}
	if err := s.temp.probe(); err != nil {
		return nil, errors.Join(storageError(err, root, "the file system does not make hard links"), s.temp.close())
	}
	return s, nil
}

// makeRoot creates the root and whatever is missing above it, durably.
func (s *Store) makeRoot() error {
	var missing []string
	for dir := s.root; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil {
			if !info.IsDir() {
				return &os.PathError{Op: "open", Path: dir, Err: errNotDir}
			}
			break
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		missing = append(missing, dir)
	}
	if err := os.MkdirAll(s.root, 0o700); err != nil {
		return err
	}
	for _, dir := range missing {
		if err := s.syncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// Close gives the temporary directory up. Operations after it are CodeClosed; those in flight may fail.
// Closing twice is fine.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.temp.close()
}

// begin is the first step of every operation: a closed store and an ended context are refused.
func (s *Store) begin(ctx context.Context) error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return &messages.Error{Code: messages.CodeClosed, Message: "the directory store is closed"}
	}
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	return nil
}

func (s *Store) path(key string) string { return filepath.Join(s.root, filepath.FromSlash(key)) }
