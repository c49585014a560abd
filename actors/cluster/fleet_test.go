package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
	"github.com/leasehold/leasehold/stores/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shortTTL is the lease of quick members.
const shortTTL = 1500 * time.Millisecond

// quick makes a member one whose leases end soon, for tests that wait for that.
func quick(n *actors.Config, c *cluster.Config) {
	n.TTL, n.Margin, n.StoreTimeout = shortTTL, 300*time.Millisecond, 400*time.Millisecond
	c.DeadAfter = 0 // the default
}

// fleet is a NATS server, shared stores, and members in this process. It runs on real time: what is tested is
// the network between members. No lease ends, and no member is given up, because the machine stands still for a second.
type fleet struct {
	t       testing.TB
	root    string
	server  *natsserver.Server
	leases  *sqlite.Store
	durable *dir.Store
	started int
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	root := t.TempDir()
	ns, err := natsserver.Start(t.Context(), natsserver.Config{Dir: filepath.Join(root, "nats"), NoSync: true})
	require.NoError(t, err)
	t.Cleanup(ns.Shutdown)
	leases, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(root, "leases.db"), NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, leases.Close()) })
	durable, err := dir.Open(t.Context(), dir.Config{Root: filepath.Join(root, "durable"), NoSync: true})
	require.NoError(t, err)
	_, err = stores.Bind(t.Context(), leases, durable) // some tests write records before there is a node
	require.NoError(t, err)
	return &fleet{t: t, root: root, server: ns, leases: leases, durable: durable}
}

// part is one member with its node and its connection.
type part struct {
	*cluster.Member
	node *actors.Node
	conn *natsgo.Conn
}

// stop is an orderly shutdown.
func (p *part) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, p.Leave(ctx))
	require.NoError(t, p.node.Shutdown(ctx))
	require.NoError(t, p.Close())
	p.conn.Close()
}

// kill ends a member as the end of its process would: nothing is said to anybody.
func (p *part) kill() {
	p.conn.Close()
	_ = p.node.Abort()
	_ = p.Close()
}

func (f *fleet) connect() *natsgo.Conn {
	f.t.Helper()
	conn, err := natsconn.Config{URL: f.server.URL()}.Connect(f.t.Context())
	require.NoError(f.t, err)
	f.t.Cleanup(conn.Close)
	return conn
}

func (f *fleet) join(name string, change ...func(*actors.Config, *cluster.Config)) *part {
	f.t.Helper()
	f.started++
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("LEASEHOLD_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", name)
	}
	n := actors.Config{
		NodeName: name, StateRoot: filepath.Join(f.root, fmt.Sprint(name, f.started)), Leases: f.leases, Durable: f.durable,
		TTL: 15 * time.Second, Margin: 3 * time.Second, RenewEvery: 300 * time.Millisecond, StoreTimeout: 5 * time.Second,
		SnapshotEvery: 300 * time.Millisecond, Log: log,
		Commands: map[string]ledgeractor.Command{"count": func(ctx context.Context, tx *ledgeractor.Tx, _ json.RawMessage) (any, error) {
			var n int
			return n, tx.QueryRowContext(ctx, "SELECT count(*) FROM events").Scan(&n)
		}},
	}
	c := cluster.Config{Conn: f.connect(), HeartbeatEvery: 100 * time.Millisecond, DeadAfter: 3 * time.Second, LookupTimeout: 5 * time.Second, SettleAfter: 200 * time.Millisecond, RebalanceEvery: time.Second, Log: log}
	for _, apply := range change {
		apply(&n, &c)
	}
	node, err := actors.Start(f.t.Context(), n)
	require.NoError(f.t, err)
	c.Node = node
	m, err := cluster.Join(f.t.Context(), c)
	if err != nil {
		_ = node.Abort()
		require.NoError(f.t, err)
	}
	p := &part{Member: m, node: node, conn: c.Conn}
	f.t.Cleanup(func() {
		_ = node.Abort()
		_ = m.Close()
	})
	return p
}

// client returns a client outside the cluster.
func (f *fleet) client(change ...func(*client.Config)) *client.Client {
	f.t.Helper()
	t, err := client.NewNATS(f.connect(), "")
	require.NoError(f.t, err)
	cfg := client.Config{AttemptTimeout: time.Second}
	for _, apply := range change {
		apply(&cfg)
	}
	c, err := client.New(t, cfg)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

// see waits until the members see so many members.
func (f *fleet) see(n int, parts ...*part) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		for _, p := range parts {
			if len(p.Members()) != n {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond)
}

func (f *fleet) key(i int) messages.Key {
	f.t.Helper()
	id, err := messages.DeriveTenant(make([]byte, 32), "https://idp.example", fmt.Sprint("user-", i))
	require.NoError(f.t, err)
	return messages.Key{Org: "acme", Tenant: id}
}

func (f *fleet) tenant(c interface {
	Tenant(messages.OrgID, messages.TenantID) (*client.Tenant, error)
}, i int) *client.Tenant {
	f.t.Helper()
	key := f.key(i)
	t, err := c.Tenant(key.Org, key.Tenant)
	require.NoError(f.t, err)
	return t
}

// grants returns the acquires of a tenant from the audit trail.
func (f *fleet) grants(i int) []messages.LeaseEntry {
	f.t.Helper()
	entries, err := f.leases.History(f.t.Context(), f.key(i))
	require.NoError(f.t, err)
	var out []messages.LeaseEntry
	for _, e := range entries {
		if e.Op == messages.OpAcquire {
			out = append(out, e)
		}
	}
	return out
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
