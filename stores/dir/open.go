package dir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/leasehold/leasehold/internal/fsync"
	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Config says where a directory store is. Only Root is needed.
type Config struct {
	// Root is the directory. It is created if it does not exist (mode 0700).
	Root string
	// MustExist refuses a directory that does not exist, as CodeNotFound, instead of creating it.
	MustExist bool
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
	made   []string          // the folders that Open has created, the innermost last
	synced func(path string) // told of every fsync, for tests; may be nil

	mu     sync.Mutex
	closed bool
	// landing holds the keys that a put of this Store has made visible, but not durable yet. Get waits
	// for them: a caller that reads its own lost answer back may then rely on it.
	landing map[string]*landing
}

var (
	_ stores.DurableStore = (*Store)(nil)
	_ stores.Discarder    = (*Store)(nil)
)

// longestObject stands for the longest path of an object below the root.
var longestObject = strings.Repeat("/k", stores.MaxObjectKeyBytes/2) + "/"

// Open opens the store, and creates its directory if it does not exist. It removes what processes that
// are dead left in the directory for temporary files; a process is known to be dead when its lock
// on its own part of that directory is gone. The errors are CodeInvalidArgument for a Root that is empty, or too long for the file system, and
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
	if err := localfile.CheckPath("the directory", root, longestObject, localfile.MaxPathBytes); err != nil {
		return nil, err
	}
	if cfg.MustExist {
		if _, err := os.Stat(root); isAbsent(err) {
			return nil, &messages.Error{Code: messages.CodeNotFound, Object: root, Message: "there is no durable store here", Err: err}
		}
	}
	s := &Store{root: root, noSync: cfg.NoSync, landing: map[string]*landing{}}
	if err := s.makeRoot(); err != nil {
		return nil, storageError(err, root, "cannot create the directory")
	}
	var made bool
	s.temp, made, err = openTemp(filepath.Join(root, tempName))
	if made {
		s.made = append(s.made, filepath.Join(root, tempName))
	}
	if err != nil {
		return nil, errors.Join(storageError(err, root, "cannot create temporary files"), fsync.Remove(s.made))
	}
	if err := s.temp.probe(); err != nil {
		return nil, errors.Join(storageError(err, root, "the file system does not make hard links"), s.Discard())
	}
	return s, nil
}

// makeRoot creates the root and whatever is missing above it, durably.
func (s *Store) makeRoot() error {
	if s.noSync {
		return os.MkdirAll(s.root, 0o700)
	}
	var err error
	s.made, err = fsync.MkdirAll(s.root, 0o700)
	return err
}

// String says where the store is.
func (s *Store) String() string { return "dir:" + s.root }

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

// Discard implements stores.Discarder.
func (s *Store) Discard() error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil
	}
	return errors.Join(s.Close(), fsync.Remove(s.made))
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
	return s.temp.moved(s.root)
}

func (s *Store) path(key string) string { return filepath.Join(s.root, filepath.FromSlash(key)) }
