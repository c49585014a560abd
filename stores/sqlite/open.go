package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"

	"github.com/leasehold/leasehold/internal/fsync"
	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/internal/localfile/sqlitefile"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Config says where a lease store is and how it behaves. Only Path is needed.
type Config struct {
	// Path of the SQLite file. It is created if it does not exist, with its folder (mode 0700).
	Path string
	// MustExist refuses a file that does not exist or is empty, as CodeNotFound, instead of creating a lease store there.
	MustExist bool
	// Now is the store's clock, for tests and simulation; nil: the machine's. All Stores on the file must be in this
	// process then, and have the same Now. The time of the store stands still while it is set back.
	Now func() time.Time
	// NoSync leaves fsync out (synchronous=OFF). A power cut can then take granted leases back, which
	// the protocol does not survive: it is for tests and simulation.
	NoSync bool
	// BusyTimeout is how long an operation waits for other processes when its context has no earlier
	// deadline; 0: 5 s. After it the operation is CodeUnavailable.
	BusyTimeout time.Duration
	// KeepRenewals, if above 0, is written into the file: of each key's audit trail, renewals older
	// than the newest KeepRenewals entries are dropped. 0 leaves the file as it is; a new file keeps
	// everything. Entries other than renewals are never dropped.
	KeepRenewals int
}

const (
	defaultBusyTimeout = 5 * time.Second
	readers            = 4
	usersSuffix        = "-users" // of the file that everybody who uses the lease file keeps locked; it is empty
)

// Store is a lease store on one SQLite file. It is safe for concurrent use, and for use together with
// other Stores on the same file, in this and in other processes.
type Store struct {
	busyTimeout time.Duration
	writer      *sql.DB // one connection
	reader      *sql.DB // never waits for a writer: WAL
	path        string
	file        os.FileInfo // of the file that is open
	clock       clock
	users       *os.File // locked by everybody who uses the file
	created     []string // the folders and files that Open has created, in this order

	// turn is a mutex that can be waited for with a context, and that a testing/synctest bubble sees
	// through: it holds one token while nobody writes.
	turn      chan struct{}
	closed    chan struct{}
	closeOnce sync.Once
	closeErr  error
}

var (
	_ stores.LeaseStore       = (*Store)(nil)
	_ stores.BatchRenewer     = (*Store)(nil)
	_ stores.LeaseLister      = (*Store)(nil)
	_ stores.Reseeder         = (*Store)(nil)
	_ stores.DeploymentKeeper = (*Store)(nil)
	_ stores.Discarder        = (*Store)(nil)
)

// Open opens the lease store, and creates it if the file does not exist or is empty. The errors are
// CodeInvalidArgument for a Config that can never work, a path that is too long for SQLite among them; CodeCorrupt for a file that is no database, no lease store,
// or lacks a rule that keeps its records safe; CodeStorage for a file that cannot be opened or
// written; CodeUnavailable if other processes keep it locked, or use it and share no clock with this one (see the
// package comment).
func Open(ctx context.Context, cfg Config) (*Store, error) {
	clock := defaultClock()
	if cfg.Now != nil {
		clock = processClock(cfg.Now)
	}
	return open(ctx, cfg, clock)
}

func open(ctx context.Context, cfg Config, clock clock) (*Store, error) {
	if cfg.Path == "" || cfg.KeepRenewals < 0 || cfg.BusyTimeout < 0 {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "a lease store needs a path, and limits that are not negative"}
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeStorage, Object: cfg.Path, Message: "no absolute path", Err: err}
	}
	if err := sqlitefile.CheckPath("the lease file", path, ""); err != nil {
		return nil, err
	}
	if cfg.BusyTimeout == 0 {
		cfg.BusyTimeout = defaultBusyTimeout
	}
	if cfg.MustExist {
		if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			return nil, &messages.Error{Code: messages.CodeNotFound, Object: path, Message: "there is no lease store here", Err: err}
		}
	}
	created, err := ensureFile(path, cfg.NoSync)
	if err != nil {
		if errors.Is(err, errTooShort) {
			return nil, &messages.Error{Code: messages.CodeCorrupt, Object: path, Message: "the file is no lease store", Err: err}
		}
		return nil, &messages.Error{Code: messages.CodeStorage, Object: path, Message: localfile.Because("cannot open or create the lease file", err), Err: err}
	}
	s := &Store{
		created:     created,
		busyTimeout: cfg.BusyTimeout,
		path:        path,
		clock:       clock,
		turn:        make(chan struct{}, 1),
		closed:      make(chan struct{}),
	}
	s.turn <- struct{}{}
	if s.users, err = s.openUsers(); err != nil {
		return nil, errors.Join(&messages.Error{Code: messages.CodeStorage, Object: path + usersSuffix, Message: localfile.Because("cannot open or create the file of the lease file's users", err), Err: err},
			fsync.Remove(s.created))
	}
	if s.writer, err = connect(path, cfg.NoSync, false, 1); err == nil {
		s.reader, err = connect(path, cfg.NoSync, true, readers)
	}
	if err == nil {
		err = s.retry(ctx, func() error { return s.setUp(path, cfg.KeepRenewals) })
	}
	if err == nil {
		s.file, err = os.Stat(path)
	}
	if err == nil {
		err = s.usersRemoved()
	}
	if err != nil {
		return nil, errors.Join(openError(path, err), s.Discard())
	}
	return s, nil
}

// moved returns an error if there is no file any more under the name of the one that is open, or another one. SQLite goes on with
// the one that it has open, which other processes do not see: two owners.
func (s *Store) moved() error {
	now, err := os.Stat(s.path)
	if err == nil && os.SameFile(s.file, now) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeDeploymentMismatch, Object: s.path,
		Message: "the lease file was deleted or replaced while it was in use: no lease is granted or renewed until it is back", Err: err}
}

func connect(path string, noSync, readOnly bool, conns int) (*sql.DB, error) {
	q := url.Values{}
	q.Set("mode", "rw")           // a file that vanished must not come back empty, with epoch 1
	q.Set("_busy_timeout", "0")   // retry waits instead, and honours the context
	q.Set("_synchronous", "FULL") // FULL syncs the WAL at each commit; NORMAL would not
	q.Set("_stmt_cache_size", "32")
	if noSync {
		q.Set("_synchronous", "OFF")
	}
	if readOnly {
		q.Set("_query_only", "1")
	}
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func (s *Store) setUp(path string, keepRenewals int) error {
	// Setting up takes milliseconds and must not be cut in half: no context from here on.
	ctx := context.Background()
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var mode string
	if err := conn.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return &messages.Error{Code: messages.CodeStorage, Object: path, Message: "the file system does not support SQLite's WAL"}
	}
	return inTransaction(ctx, conn, func() error {
		if err := prepare(ctx, conn, path, keepRenewals); err != nil {
			return err
		}
		return s.clock.anchor(ctx, conn, s.users)
	})
}

// String says where the store is.
func (s *Store) String() string { return "sqlite:" + s.path }

// Close waits for the operation in flight, and closes the store. Operations after it are CodeClosed.
// Closing twice is fine.
func (s *Store) Close() error { return s.end(false) }

// Discard implements stores.Discarder.
func (s *Store) Discard() error { return s.end(true) }

func (s *Store) end(discard bool) error {
	s.closeOnce.Do(func() {
		close(s.closed)
		<-s.turn
		discard = discard && len(s.created) > 0 && s.unused()
		for _, db := range []*sql.DB{s.reader, s.writer} {
			if db != nil {
				s.closeErr = errors.Join(s.closeErr, db.Close())
			}
		}
		if discard {
			// The file of the users goes last: whoever opens the other one meanwhile does not get its lock.
			if slices.Contains(s.created, s.path) {
				s.closeErr = errors.Join(s.closeErr, os.Remove(s.path))
			}
			s.closeErr = errors.Join(s.closeErr, fsync.Remove(s.created))
		}
		s.closeErr = errors.Join(s.closeErr, s.users.Close())
	})
	return s.closeErr
}
