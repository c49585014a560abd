package snapshotactor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // the database that images are made of
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testKey = messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}

// ledgerOf returns the bytes of a real SQLite ledger with one event for each word.
func ledgerOf(t testing.TB, key messages.Key, words ...string) []byte {
	t.Helper()
	id := key.String() + " " + strings.Join(words, " ")
	ledgers.Lock()
	defer ledgers.Unlock()
	if data := ledgers.made[id]; data != nil {
		return data
	}
	path := filepath.Join(t.TempDir(), "made.db")
	db, err := sql.Open("sqlite3", path+"?_journal_mode=MEMORY&_synchronous=OFF")
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE events (seq INTEGER PRIMARY KEY, tenant_id TEXT NOT NULL, payload TEXT NOT NULL)`)
	require.NoError(t, err)
	for _, word := range words {
		_, err = db.Exec(`INSERT INTO events (tenant_id, payload) VALUES (?, ?)`, string(key.Tenant), word)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	ledgers.made[id] = data
	return data
}

var ledgers = struct {
	sync.Mutex
	made map[string][]byte
}{made: map[string][]byte{}}

func imageOf(t testing.TB, words ...string) Image {
	n := int64(len(words))
	return Image{Bytes: ledgerOf(t, testKey, words...), Events: n, LastSeq: n}
}

// sqliteVerifier does with SQLite what the ledger's verifier does.
type sqliteVerifier struct{}

func (sqliteVerifier) Verify(ctx context.Context, path string, key messages.Key) (events, lastSeq int64, err error) {
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check`).Scan(&verdict); err != nil || verdict != "ok" {
		return 0, 0, fmt.Errorf("integrity check: %q %w", verdict, err)
	}
	var strangers int64
	err = db.QueryRowContext(ctx, `SELECT count(*), coalesce(max(seq), 0), count(*) FILTER (WHERE tenant_id <> ?) FROM events`, string(key.Tenant)).
		Scan(&events, &lastSeq, &strangers)
	if err == nil && strangers > 0 {
		err = errors.New("rows of another tenant")
	}
	return events, lastSeq, err
}

// wordsIn reads the events of a ledger file back.
func wordsIn(t testing.TB, path string) string {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.Query(`SELECT payload FROM events ORDER BY seq`)
	require.NoError(t, err)
	defer rows.Close()
	var words []string
	for rows.Next() {
		var word string
		require.NoError(t, rows.Scan(&word))
		words = append(words, word)
	}
	require.NoError(t, rows.Err())
	return strings.Join(words, " ")
}

// fence is a holder's fence that a test opens and closes.
type fence struct {
	mu     sync.Mutex
	reason string
}

func (f *fence) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reason != "" {
		return messages.Fenced(testKey, 0, f.reason)
	}
	return nil
}

func (f *fence) Close(reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reason = reason
}

func (f *fence) closedFor() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reason
}

// world is one durable store, on a real directory, with any number of nodes around it.
type world struct {
	t     testing.TB
	store *storetest.FaultyDurable
	dir   string
	nodes int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	store, err := dir.Open(context.Background(), dir.Config{Root: t.TempDir(), NoSync: true})
	require.NoError(t, err)
	w := &world{t: t, store: storetest.NewFaultyDurable(store), dir: t.TempDir()}
	t.Cleanup(func() {
		w.store.DropLate()
		require.NoError(t, store.Close())
	})
	return w
}

// node is one process: its configuration, its fence, and what it opened.
type node struct {
	world     *world
	cfg       Config
	fence     *fence
	restored  Restored
	publisher *Publisher
}

// node returns a new process. change (nil: nothing) may plant faults.
func (w *world) node(change func(*Config)) *node {
	w.nodes++
	f := &fence{}
	cfg := Config{Store: w.store, Key: testKey, Owner: fmt.Sprintf("node-%d", w.nodes), Fence: f, Verifier: sqliteVerifier{},
		File: filepath.Join(w.dir, fmt.Sprintf("node-%d.db", w.nodes)), Backoff: time.Microsecond, MaxBackoff: time.Microsecond, Attempts: 4}
	if change != nil {
		change(&cfg)
	}
	return &node{world: w, cfg: cfg, fence: f}
}

// open opens the tenant at an epoch, floor 0.
func (n *node) open(epoch uint64) error { return n.openAt(Grant{Epoch: epoch}) }

func (n *node) openAt(g Grant) (err error) {
	g.Marked = g.Marked || n.world.served(g)
	n.restored, err = Open(context.Background(), n.cfg, g)
	if err == nil {
		n.publisher, err = NewPublisher(n.cfg, n.restored)
	}
	return err
}

// served says what the lease record would: whether the tenant was pinned above the floor before.
func (w *world) served(g Grant) bool {
	w.t.Helper()
	names, err := w.store.Inner().List(context.Background(), testKey.Prefix())
	require.NoError(w.t, err)
	return slices.ContainsFunc(names, func(name string) bool {
		o, err := messages.ParseObject(name)
		if err != nil || o.Kind != messages.ObjectBase || o.Epoch <= g.Floor || o.Epoch >= g.Epoch {
			return false
		}
		kind, err := messages.KindOf(w.get(name))
		return err == nil && kind == messages.KindBase
	})
}

// opened is a new node that has opened at an epoch.
func (w *world) opened(epoch uint64) *node {
	w.t.Helper()
	n := w.node(nil)
	require.NoError(w.t, n.open(epoch))
	return n
}

func (n *node) publish(t testing.TB, words string) (messages.Manifest, error) {
	t.Helper()
	return n.publisher.Publish(context.Background(), imageOf(t, strings.Fields(words)...))
}

// holds opens the tenant afresh at an epoch and says which events it finds.
func (w *world) holds(epoch uint64) string {
	w.t.Helper()
	n := w.opened(epoch)
	return wordsIn(w.t, n.cfg.File)
}

func (w *world) names() []string {
	w.t.Helper()
	names, err := w.store.Inner().List(context.Background(), testKey.Prefix())
	require.NoError(w.t, err)
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, testKey.Prefix())
	}
	return names
}

// put lets something land in the store, past every planned fault.
func (w *world) put(name string, data []byte) {
	w.t.Helper()
	created, err := w.store.Inner().PutIfAbsent(context.Background(), name, data)
	require.NoError(w.t, err)
	require.True(w.t, created, name)
}

func (w *world) get(name string) []byte {
	w.t.Helper()
	data, ok, err := w.store.Inner().Get(context.Background(), name, 1<<30)
	require.NoError(w.t, err)
	require.True(w.t, ok, name)
	return data
}

func (w *world) replace(name string, data []byte) {
	w.t.Helper()
	_, err := w.store.Inner().Delete(context.Background(), name)
	require.NoError(w.t, err)
	w.put(name, data)
}

func code(t testing.TB, want messages.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, messages.CodeOf(err), "%v", err)
}

func object(t testing.TB, want string, err error) {
	t.Helper()
	require.Equal(t, want, messages.AsError(err).Object, "%v", err)
}
