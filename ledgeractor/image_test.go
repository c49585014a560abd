package ledgeractor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// write puts an image where Verify finds it.
func write(t testing.TB, image []byte) string {
	path := filepath.Join(t.TempDir(), "image.db")
	require.NoError(t, ledgeractor.WriteImage(context.Background(), path, image))
	return path
}

func TestS7_AnImageHoldsExactlyTheWritesBeforeIt(t *testing.T) {
	l := start(t, table)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// Each transaction adds one to both tables: a torn image shows.
				err := l.Run(context.Background(), func(tx *ledgeractor.Tx) error {
					_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES ('x')")
					if err != nil {
						return err
					}
					_, err = tx.Append(tx.Context(), messages.Event{Kind: "x"})
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 15 {
		acknowledged, before := l.Status().LastSeq, l.Version()
		image, err := l.Cut(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, image.LastSeq, acknowledged)
		require.GreaterOrEqual(t, image.Version, before)
		path := write(t, image.Bytes)
		found, err := ledgeractor.Verify(t.Context(), path, testKey)
		require.NoError(t, err)
		require.Equal(t, [2]int64{image.Events, image.LastSeq}, [2]int64{found.Events, found.LastSeq})
		var notes int64
		require.NoError(t, raw(t, path).QueryRow("SELECT count(*) FROM notes").Scan(&notes))
		require.Equal(t, image.Events, notes)
	}
	close(stop)
	writers.Wait()
	image, err := l.Cut(t.Context())
	require.NoError(t, err)
	require.Equal(t, l.Version(), image.Version, "nothing is unflushed")
	require.Equal(t, l.Status().LastSeq, image.LastSeq)
	require.NoFileExists(t, l.path+".cut")
	next := start(t, at(write(t, image.Bytes)), table)
	require.EqualValues(t, image.LastSeq+1, next.append("goes on").Seq)
}

func TestCutWaitsForNobodyLongAndGivesUpCleanly(t *testing.T) {
	l := start(t)
	release := l.hold()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { _, err := l.Cut(ctx); result <- err }()
	cancel()
	requireCode(t, <-result, messages.CodeCanceled)
	release()
	image, err := l.Cut(t.Context())
	require.NoError(t, err)
	require.Zero(t, image.LastSeq)
	l.append("still serving")
}

func TestVerifyFindsEveryDefect(t *testing.T) {
	l := start(t, table)
	for i := range 200 {
		_, err := l.Append(t.Context(), []messages.Event{{Kind: "x", IdemKey: fmt.Sprint(i), Payload: payload(`"%s"`, strings.Repeat("x", 500))}})
		require.NoError(t, err)
	}
	image, err := l.Cut(t.Context())
	require.NoError(t, err)
	good := write(t, image.Bytes)
	found, err := ledgeractor.Verify(t.Context(), good, testKey)
	require.NoError(t, err)
	require.Equal(t, [2]int64{200, 200}, [2]int64{found.Events, found.LastSeq})
	entries, err := os.ReadDir(filepath.Dir(good))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no files left beside it")
	after, err := os.ReadFile(good)
	require.NoError(t, err)
	require.True(t, bytes.Equal(image.Bytes, after))

	corrupt := func(name string, err error) {
		t.Helper()
		require.Error(t, err, name)
		require.Equal(t, messages.CodeCorrupt, messages.CodeOf(err), "%s: %v", name, err)
		require.Equal(t, "image.db", messages.AsError(err).Object, name)
	}
	_, err = ledgeractor.Verify(t.Context(), good, otherKey)
	corrupt("another tenant's", err)
	for name, change := range map[string]func([]byte) []byte{
		"empty":         func(b []byte) []byte { return nil },
		"short":         func(b []byte) []byte { return b[:50] },
		"truncated":     func(b []byte) []byte { return b[:len(b)-4096] },
		"half a page":   func(b []byte) []byte { return b[:len(b)/2+100] },
		"garbage":       func(b []byte) []byte { return bytes.Repeat([]byte("garbage "), 1000) },
		"no magic":      func(b []byte) []byte { b[0] = 'X'; return b },
		"page size":     func(b []byte) []byte { b[16], b[17] = 0, 3; return b },
		"zeroed middle": func(b []byte) []byte { clear(b[len(b)/2 : len(b)/2+4096]); return b },
		"zeroed schema": func(b []byte) []byte { clear(b[100:4096]); return b },
	} {
		_, err := ledgeractor.Verify(t.Context(), write(t, change(bytes.Clone(image.Bytes))), testKey)
		corrupt(name, err)
	}
	for name, statements := range map[string]string{
		"no update trigger":    "DROP TRIGGER events_no_update",
		"no replace trigger":   "DROP TRIGGER events_no_replace",
		"other delete trigger": "DROP TRIGGER events_no_delete; CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT 1; END",
		"foreign trigger":      "CREATE TRIGGER extra BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END",
		"no index":             "DROP INDEX events_idem",
		"renamed":              "ALTER TABLE events RENAME TO e; CREATE TABLE events (seq INTEGER PRIMARY KEY)",
		"no migrations":        "DROP TABLE leasehold_migrations",
		"another application":  "PRAGMA application_id = 1",
	} {
		path := write(t, image.Bytes)
		db := raw(t, path)
		_, err := db.Exec(statements)
		require.NoError(t, err, name)
		require.NoError(t, db.Close())
		_, err = ledgeractor.Verify(t.Context(), path, testKey)
		corrupt(name, err)
		opened := launch(t, at(path), table)
		require.Equal(t, messages.CodeCorrupt, messages.CodeOf((<-opened.opened).Err), name)
		opened.stop()
	}
	_, err = ledgeractor.Verify(t.Context(), filepath.Join(t.TempDir(), "nowhere.db"), testKey)
	requireCode(t, err, messages.CodeStorage)
	_, err = ledgeractor.Verify(t.Context(), t.TempDir(), testKey)
	requireCode(t, err, messages.CodeStorage)
	_, err = ledgeractor.Verify(t.Context(), l.path, testKey)
	requireCode(t, err, messages.CodeInvalidArgument) // it is in use
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = ledgeractor.Verify(ctx, good, testKey)
	requireCode(t, err, messages.CodeCanceled)
	requireCode(t, ledgeractor.WriteImage(t.Context(), good, nil), messages.CodeStorage)
}

func TestALedgerThatTurnsOutCorruptSaysSo(t *testing.T) {
	l := start(t)
	for range 300 {
		_, err := l.Append(t.Context(), []messages.Event{{Kind: "x", Payload: payload(`"%s"`, strings.Repeat("x", 3000))}})
		require.NoError(t, err)
	}
	l.stop()
	content, err := os.ReadFile(l.path)
	require.NoError(t, err)
	for i := 40 * 4096; i < len(content); i += 4096 { // pages that opening does not look at
		copy(content[i:], bytes.Repeat([]byte{0xee}, 64))
	}
	require.NoError(t, os.WriteFile(l.path, content, 0o600))
	l = launch(t, at(l.path))
	if err := (<-l.opened).Err; err != nil {
		requireCode(t, err, messages.CodeCorrupt)
		return
	}
	_, _, err = l.Events(t.Context(), 0, 0)
	requireCode(t, err, messages.CodeCorrupt)
	report := <-l.events
	var typed *messages.Error
	require.ErrorAs(t, report.(ledgeractor.Corrupt).Err, &typed)
	require.Equal(t, messages.CodeCorrupt, typed.Code)
	_, err = l.Append(t.Context(), event("x"))
	requireCode(t, err, messages.CodeCorrupt)
	_, err = l.Cut(t.Context())
	requireCode(t, err, messages.CodeCorrupt)
	require.Equal(t, messages.CodeCorrupt, messages.CodeOf(l.Status().Err))
}

func TestGarbageIsNoLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("garbage "), 1000), 0o600))
	l := launch(t, at(path))
	requireCode(t, (<-l.opened).Err, messages.CodeCorrupt)
	_, err := l.Append(t.Context(), event("x"))
	requireCode(t, err, messages.CodeCorrupt)
	l = launch(t, at(filepath.Join(t.TempDir(), "no", "folder.db")))
	requireCode(t, (<-l.opened).Err, messages.CodeStorage)
}

func FuzzVerify(f *testing.F) {
	l := start(f, table)
	for i := range 20 {
		_, err := l.Append(context.Background(), keyed("x", fmt.Sprint(i)))
		require.NoError(f, err)
	}
	image, err := l.Cut(context.Background())
	require.NoError(f, err)
	f.Add(uint32(0), []byte("x"), uint32(0))
	f.Add(uint32(16), []byte{0, 3}, uint32(0))
	f.Add(uint32(100), make([]byte, 200), uint32(0))
	f.Add(uint32(5000), []byte{0xff, 0xff, 0xff}, uint32(5000))
	f.Add(uint32(len(image.Bytes)), []byte{}, uint32(1))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, offset uint32, change []byte, cut uint32) {
		mutated := bytes.Clone(image.Bytes)
		copy(mutated[min(int(offset), len(mutated)):], change)
		mutated = mutated[:len(mutated)-int(cut)%(len(mutated)+1)]
		path := filepath.Join(dir, "image.db")
		require.NoError(t, os.WriteFile(path, mutated, 0o600))
		found, err := ledgeractor.Verify(context.Background(), path, testKey)
		switch {
		case errors.Is(err, messages.ErrCorrupt):
		case err != nil:
			t.Fatal(err)
		default: // what passes is readable
			require.LessOrEqual(t, found.Events, found.LastSeq)
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
}
