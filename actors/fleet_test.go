package actors_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl        = 3 * time.Second
	margin     = time.Second
	renewEvery = 500 * time.Millisecond
	snapEvery  = 2 * time.Second
)

// fleet is a set of nodes on shared real stores, behind wrappers that can fail.
type fleet struct {
	t       *testing.T
	root    string
	leases  *storetest.FaultyLeases
	durable *storetest.FaultyDurable
	nodes   int

	mu     sync.Mutex
	events []messages.Lifecycle
}

// inBubble runs a test on virtual time: hours of leases take milliseconds, and nothing is flaky.
func inBubble(t *testing.T, f func(t *testing.T, fl *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newFleet(t)) })
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	root := t.TempDir()
	leases, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(root, "leases.db"), NoSync: true})
	require.NoError(t, err)
	durable, err := dir.Open(t.Context(), dir.Config{Root: filepath.Join(root, "durable"), NoSync: true})
	require.NoError(t, err)
	f := &fleet{t: t, root: root, leases: storetest.NewFaultyLeases(leases), durable: storetest.NewFaultyDurable(durable)}
	t.Cleanup(func() {
		f.durable.DropLate()
		f.leases.DropLate()
		require.NoError(t, leases.Close())
	})
	return f
}

func (f *fleet) config() actors.Config {
	return actors.Config{
		Leases: f.leases, Durable: f.durable, TTL: ttl, Margin: margin, RenewEvery: renewEvery, SnapshotEvery: snapEvery,
		StoreTimeout: 400 * time.Millisecond, DurableTimeout: 2 * time.Second, IdleAfter: -1,
		Log: slog.New(slog.DiscardHandler),
		OnLifecycle: func(e messages.Lifecycle) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, e)
		},
	}
}

// start starts one more node. It is aborted at the end of the test, if it still runs.
func (f *fleet) start(change ...func(*actors.Config)) *actors.Node {
	f.t.Helper()
	f.nodes++
	cfg := f.config()
	cfg.NodeName = fmt.Sprintf("node-%d", f.nodes)
	cfg.StateRoot = filepath.Join(f.root, cfg.NodeName)
	for _, c := range change {
		c(&cfg)
	}
	n, err := actors.Start(f.t.Context(), cfg)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = n.Abort() })
	return n
}

func (f *fleet) lifecycle(kind messages.LifecycleKind) []messages.Lifecycle {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []messages.Lifecycle
	for _, e := range f.events {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// grants returns the epochs that were granted, from the audit trail.
func (f *fleet) grants(key messages.Key) []uint64 {
	f.t.Helper()
	entries, err := f.leases.Inner().History(f.t.Context(), key)
	require.NoError(f.t, err)
	var out []uint64
	for _, e := range entries {
		if e.Op == messages.OpAcquire {
			out = append(out, e.Epoch)
		}
	}
	return out
}

func tenantID(t *testing.T, subject string) messages.TenantID {
	t.Helper()
	id, err := messages.DeriveTenant([]byte("0123456789abcdef0123456789abcdef"), "https://idp.example/acme", subject)
	require.NoError(t, err)
	return id
}

func open(t *testing.T, n *actors.Node, subject string) *actors.Tenant {
	t.Helper()
	tenant, err := tryOpen(t.Context(), n, tenantID(t, subject))
	require.NoError(t, err)
	return tenant
}

// tryOpen opens a tenant, and creates it if there is none.
func tryOpen(ctx context.Context, n *actors.Node, id messages.TenantID) (*actors.Tenant, error) {
	tenant, err := n.Tenant(ctx, "acme", id)
	if err != nil {
		return nil, err
	}
	return tenant, tenant.Open(ctx)
}

func appendKind(t *testing.T, tenant *actors.Tenant, kinds ...string) {
	t.Helper()
	for _, k := range kinds {
		_, err := tenant.Append(t.Context(), messages.Event{Kind: k})
		require.NoError(t, err)
	}
}

func kinds(t *testing.T, tenant *actors.Tenant) []string {
	t.Helper()
	events, more, err := tenant.Events(t.Context(), 0, 1000)
	require.NoError(t, err)
	require.False(t, more)
	out := []string{}
	for _, e := range events {
		out = append(out, e.Kind)
	}
	return out
}

func epoch(t *testing.T, tenant *actors.Tenant) uint64 {
	t.Helper()
	s, err := tenant.Status(t.Context())
	require.NoError(t, err)
	return s.Epoch
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// objects returns the names in the durable store below a tenant's prefix.
func (f *fleet) objects(key messages.Key) []string {
	f.t.Helper()
	names, err := f.durable.Inner().List(f.t.Context(), key.Prefix())
	require.NoError(f.t, err)
	return names
}

// copies are the objects that a forget deletes: all but the floor.
func (f *fleet) copies(key messages.Key) []string {
	return slices.DeleteFunc(f.objects(key), func(name string) bool {
		o, err := messages.ParseObject(name)
		return err == nil && o.Kind == messages.ObjectFloor
	})
}
