package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestOpen_RefusesWhatIsNoLeaseStore(t *testing.T) {
	edit := func(statements ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
			require.NoError(t, err)
			require.NoError(t, s.Close())
			db, err := sql.Open("sqlite3", path)
			require.NoError(t, err)
			for _, statement := range statements {
				_, err = db.Exec(statement)
				require.NoError(t, err)
			}
			require.NoError(t, db.Close())
		}
	}
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
		code messages.Code
	}{
		{"no database", func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("no database at all\n", 500)), 0o600))
		}, messages.CodeCorrupt},
		{"a few bytes", func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("x"), 0o600)) }, messages.CodeCorrupt},
		{"a folder", func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, messages.CodeStorage},
		{"a file for a folder", func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(filepath.Dir(path)+"/folder", nil, 0o600))
		}, messages.CodeStorage},
		{"another program's database", func(t *testing.T, path string) {
			db, err := sql.Open("sqlite3", path)
			require.NoError(t, err)
			_, err = db.Exec(`CREATE TABLE things (a)`)
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}, messages.CodeCorrupt},
		{"a trigger is missing", edit(`DROP TRIGGER leases_delete`), messages.CodeCorrupt},
		{"a trigger is weaker", edit(`DROP TRIGGER leases_epoch`,
			`CREATE TRIGGER leases_epoch BEFORE UPDATE ON leases WHEN NEW.epoch < OLD.epoch BEGIN SELECT RAISE(ABORT, ''); END`), messages.CodeCorrupt},
		{"a trigger is added", edit(`CREATE TRIGGER more AFTER INSERT ON leases BEGIN DELETE FROM trail WHERE op = 'x'; END`), messages.CodeCorrupt},
		{"the trail is missing", edit(`DROP TABLE trail`), messages.CodeCorrupt},
		{"the clock is missing", edit(`DROP TRIGGER store_delete`, `DELETE FROM store`,
			`CREATE TRIGGER store_delete BEFORE DELETE ON store
BEGIN SELECT RAISE(ABORT, 'leasehold: the store row is never deleted'); END`), messages.CodeCorrupt},
		{"another version", edit(`PRAGMA user_version = 2`), messages.CodeCorrupt},
		{"another application", edit(`PRAGMA application_id = 7`), messages.CodeCorrupt},
		{"truncated", func(t *testing.T, path string) {
			edit()(t, path)
			require.NoError(t, os.Truncate(path, 5000))
		}, messages.CodeCorrupt},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "leases.db")
			tt.make(t, path)
			if tt.name == "a file for a folder" {
				path = filepath.Join(filepath.Dir(path), "folder", "leases.db")
			}
			before, _ := os.ReadFile(path)
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
			require.Nil(t, s)
			require.Equal(t, tt.code, messages.CodeOf(err), "%v", err)
			require.Contains(t, messages.AsError(err).Object, filepath.Base(path))
			if tt.name == "no database" {
				after, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, before, after, "a refused file is not touched")
			}
		})
	}
}

func TestOpen_RefusesABadConfig(t *testing.T) {
	for _, cfg := range []sqlite.Config{{}, {Path: "x", KeepRenewals: -1}, {Path: "x", BusyTimeout: -1}} {
		_, err := sqlite.Open(t.Context(), cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(t.TempDir(), "x")})
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
}

func TestOpen_AFileWithAnAwkwardName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?mode=memory&c#d%41ä", "ü.db")
	store := open(t, sqlite.Config{Path: path})
	_, err := store.Acquire(t.Context(), storetest.NewKey(), "a", time.Second)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Positive(t, info.Size())
}

// A lease file that vanished must not come back empty and hand out epoch 1 again.
func TestOpen_AFileThatVanishesIsNotMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	store := open(t, sqlite.Config{Path: path})
	key := storetest.NewKey()
	_, err := store.Acquire(t.Context(), key, "a", time.Second)
	require.NoError(t, err)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		require.NoError(t, os.Remove(path+suffix))
	}
	// The reader has not opened the file yet.
	_, _, err = store.Read(t.Context(), key)
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorIs(t, err, messages.ErrDeploymentMismatch)
	require.NoFileExists(t, path)
}

func TestOpen_ManyAtOnceMakeOneStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	key := storetest.NewKey()
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for range 12 {
		wg.Go(func() {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			_, err = s.Acquire(t.Context(), key, "a", time.Hour)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				granted++
			case messages.CodeOf(err) != messages.CodeHeld:
				t.Errorf("acquire: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, granted)
}

// A file that is deleted or replaced under a running process: the next renewal fails, and everything else. When it is back,
// all goes on.
func TestK4_AReplacedFileIsNoticedByTheNextRenewal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	store := open(t, sqlite.Config{Path: path})
	key := storetest.NewKey()
	_, err := store.Acquire(t.Context(), key, "a", time.Hour)
	require.NoError(t, err)
	gone := func() {
		t.Helper()
		_, renew := store.Renew(t.Context(), key, "a", 1, time.Hour)
		_, many := store.RenewMany(t.Context(), []stores.Renewal{{Key: key, Owner: "a", Epoch: 1, TTL: time.Hour}})
		_, acquire := store.Acquire(t.Context(), storetest.NewKey(), "a", time.Hour)
		_, _, read := store.Read(t.Context(), key)
		_, identity := store.Deployment(t.Context())
		for _, err := range []error{renew, many, acquire, read, identity} {
			require.ErrorIs(t, err, messages.ErrUnavailable)
			require.ErrorIs(t, err, messages.ErrDeploymentMismatch)
			require.Equal(t, path, messages.AsError(err).Object)
		}
	}
	aside := t.TempDir()
	require.NoError(t, os.Rename(path, filepath.Join(aside, "leases.db")))
	gone()
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	gone()
	require.NoError(t, os.Rename(filepath.Join(aside, "leases.db"), path))
	_, err = store.Renew(t.Context(), key, "a", 1, time.Hour)
	require.NoError(t, err)
}
