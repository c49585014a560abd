package ledgeractor_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		serveUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}

var (
	testKey  = messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	otherKey = messages.Key{Org: "acme", Tenant: "t-00000000000000000000000000000000"}
)

const testEpoch = 7

// switchFence is a fence that a test opens and closes.
type switchFence struct {
	closed atomic.Bool
	checks atomic.Int64
	onNth  atomic.Int64 // at this check the action below runs, before the answer; 0: never
	action func()
	late   bool // the action runs after the answer was found
}

func (f *switchFence) Check() error {
	if n := f.checks.Add(1); n == f.onNth.Load() {
		if f.late {
			defer f.action()
		} else {
			f.action()
		}
	}
	if f.closed.Load() {
		return messages.Fenced(testKey, testEpoch, messages.ReasonExpiredLocally)
	}
	return nil
}

// at runs action at the n-th check from now.
func (f *switchFence) at(n int64, action func()) { f.on(n, action, false) }

func (f *switchFence) on(n int64, action func(), late bool) {
	f.action, f.late = action, late
	f.onNth.Store(f.checks.Load() + n)
}

func (f *switchFence) close() { f.closed.Store(true) }

// ledger is a running actor under test.
type ledger struct {
	*ledgeractor.Handle
	t      testing.TB
	fence  *switchFence
	path   string
	system *mailbox.System
	ref    *mailbox.Ref
	mu     sync.Mutex
	told   []any
	opened chan ledgeractor.Opened
	events chan any // Corrupt and Restarted
}

// start runs a ledger; change may alter its configuration.
func start(t testing.TB, change ...func(*ledgeractor.Config)) *ledger {
	l := launch(t, change...)
	require.NoError(t, (<-l.opened).Err)
	return l
}

// launch runs a ledger that may fail to open.
func launch(t testing.TB, change ...func(*ledgeractor.Config)) *ledger {
	l := &ledger{t: t, fence: &switchFence{}, path: filepath.Join(t.TempDir(), "ledger.db"),
		opened: make(chan ledgeractor.Opened, 2), events: make(chan any, 8)}
	cfg := ledgeractor.Config{Path: l.path, Key: testKey, Epoch: testEpoch, Fence: l.fence}
	for _, c := range change {
		c(&cfg)
	}
	l.path = cfg.Path
	l.system = mailbox.NewSystem(slog.New(slog.DiscardHandler))
	actor := ledgeractor.New(cfg, func(msg any) {
		l.mu.Lock()
		l.told = append(l.told, msg)
		l.mu.Unlock()
		if o, ok := msg.(ledgeractor.Opened); ok {
			l.opened <- o
			return
		}
		l.events <- msg
	})
	l.ref = l.system.Spawn(actor)
	l.Handle = actor.Handle(l.ref)
	t.Cleanup(l.stop)
	return l
}

// stop ends the ledger; its file stays.
func (l *ledger) stop() { require.NoError(l.t, l.system.Shutdown(context.Background())) }

// at makes a launch use the file of another ledger.
func at(path string) func(*ledgeractor.Config) {
	return func(c *ledgeractor.Config) { c.Path = path }
}

func limits(limits ledgeractor.Limits) func(*ledgeractor.Config) {
	return func(c *ledgeractor.Config) { c.Limits = limits }
}

// table registers a migration that makes an application table.
func table(c *ledgeractor.Config) {
	c.Migrations = append(c.Migrations, ledgeractor.Migration{Version: 1, Name: "notes", SQL: "CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT)"})
}

func event(kind string) []messages.Event { return []messages.Event{{Kind: kind}} }

func keyed(kind, key string) []messages.Event { return []messages.Event{{Kind: kind, IdemKey: key}} }

// append stores one event.
func (l *ledger) append(kind string) messages.Appended {
	l.t.Helper()
	out, err := l.Append(l.t.Context(), event(kind))
	require.NoError(l.t, err)
	require.Len(l.t, out, 1)
	return out[0]
}

// kinds returns the kinds of all events in order.
func (l *ledger) kinds() []string {
	l.t.Helper()
	list, more, err := l.Events(l.t.Context(), 0, 0)
	require.NoError(l.t, err)
	require.False(l.t, more)
	kinds := []string{}
	for _, e := range list {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// count returns what a query with one number says.
func (l *ledger) count(query string, args ...any) int64 {
	l.t.Helper()
	r, err := l.Query(l.t.Context(), query, args...)
	require.NoError(l.t, err)
	require.Len(l.t, r.Rows, 1)
	return r.Rows[0][0].(int64)
}

// raw opens a file with the bare driver, past every guard.
func raw(t testing.TB, path string) *sql.DB {
	db, err := sql.Open("sqlite3", path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// requireCode demands a typed error with one of the codes.
func requireCode(t testing.TB, err error, codes ...messages.Code) {
	t.Helper()
	require.Error(t, err)
	var typed *messages.Error
	require.ErrorAs(t, err, &typed)
	require.Contains(t, codes, typed.Code, "%v", err)
}

// hold occupies the actor with application code until the returned function is called.
func (l *ledger) hold() (release func()) {
	begun, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	// Counted before anything else is, or the next taking would take it for one of its own.
	l.taking(1, func() {
		done <- l.Run(context.Background(), func(*ledgeractor.Tx) error { close(begun); <-gate; return nil })
	})
	<-begun
	var once sync.Once
	return func() {
		once.Do(func() {
			close(gate)
			<-done
		})
	}
}

// files lists the folder of the ledger.
func (l *ledger) files() []string {
	entries, err := os.ReadDir(filepath.Dir(l.path))
	require.NoError(l.t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func payload(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

// queue sends n appends that wait behind the held actor, in order, and returns where their answers
// will come.
func (l *ledger) queue(n int) <-chan error {
	results := make(chan error, n)
	for i := range n {
		l.taking(1, func() {
			_, err := l.Append(context.Background(), event(fmt.Sprint("queued ", i)))
			results <- err
		})
	}
	return results
}

// taking runs calls, each on a goroutine, and waits until the mailbox has taken n requests of them.
func (l *ledger) taking(n uint64, calls ...func()) {
	l.t.Helper()
	n += l.Status().Requests
	for _, call := range calls {
		go call()
	}
	require.Eventually(l.t, func() bool { return l.Status().Requests >= n }, 10*time.Second, 100*time.Microsecond)
}
