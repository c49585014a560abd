package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Config says where a lease store is and how it behaves. Only Path is needed.
type Config struct {
	// Path of the SQLite file. It is created if it does not exist, with its folder (mode 0700).
	Path string
	// Now is the store's clock; nil: time.Now. See the package comment for what is made of it.
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
)

// Store is a lease store on one SQLite file. It is safe for concurrent use, and for use together with
// other Stores on the same file, in this and in other processes.
type Store struct {
	busyTimeout time.Duration
	writer      *sql.DB // one connection
	reader      *sql.DB // never waits for a writer: WAL
	clock       clock   // guarded by turn

	// turn is a mutex that can be waited for with a context, and that a testing/synctest bubble sees
	// through: it holds one token while nobody writes.
	turn      chan struct{}
	closed    chan struct{}
	closeOnce sync.Once
	closeErr  error
}

var (
	_ stores.LeaseStore   = (*Store)(nil)
	_ stores.BatchRenewer = (*Store)(nil)
	_ stores.LeaseLister  = (*Store)(nil)
)

// Open opens the lease store, and creates it if the file does not exist or is empty. The errors are
// CodeInvalidArgument for a Config that can never work; CodeCorrupt for a file that is no database, no lease store,
// or lacks a rule that keeps its records safe; CodeStorage for a file that cannot be opened or
// written; CodeUnavailable if other processes keep it locked.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Path == "" || cfg.KeepRenewals < 0 || cfg.BusyTimeout < 0 {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "a lease store needs a path, and limits that are not negative"}
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeStorage, Object: cfg.Path, Message: "no absolute path", Err: err}
	}
	clock := clock{now: cfg.Now}
	if cfg.Now == nil {
		clock.now, clock.machine = time.Now, machineTime
	}
	if cfg.BusyTimeout == 0 {
		cfg.BusyTimeout = defaultBusyTimeout
	}
	if err := ensureFile(path); err != nil {
		if errors.Is(err, errTooShort) {
			return nil, &messages.Error{Code: messages.CodeCorrupt, Object: path, Message: "the file is no lease store", Err: err}
		}
		return nil, &messages.Error{Code: messages.CodeStorage, Object: path, Message: "cannot open or create the lease file", Err: err}
	}
	s := &Store{
		busyTimeout: cfg.BusyTimeout,
		clock:       clock,
		turn:        make(chan struct{}, 1),
		closed:      make(chan struct{}),
	}
	s.turn <- struct{}{}
	if s.writer, err = connect(path, cfg.NoSync, false, 1); err == nil {
		s.reader, err = connect(path, cfg.NoSync, true, readers)
	}
	if err == nil {
		err = s.retry(ctx, func() error { return s.setUp(path, cfg.KeepRenewals) })
	}
	if err != nil {
		return nil, errors.Join(openError(path, err), s.Close())
	}
	return s, nil
}

// minFile is the smallest page of a SQLite file. SQLite takes a file of a few bytes for an empty one,
// and would overwrite it.
const minFile = 512

var errTooShort = errors.New("it is not empty, and too short for a SQLite file")

// ensureFile creates the file and its folder, durably.
func ensureFile(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 && info.Size() < minFile {
		return errTooShort
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	// SQLite syncs the folder for its WAL, but not for a database file that it did not create.
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
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
		return s.clock.anchor(ctx, conn)
	})
}

// Close waits for the operation in flight, and closes the store. Operations after it are CodeClosed.
// Closing twice is fine.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closed)
		<-s.turn
		for _, db := range []*sql.DB{s.reader, s.writer} {
			if db != nil {
				s.closeErr = errors.Join(s.closeErr, db.Close())
			}
		}
	})
	return s.closeErr
}
