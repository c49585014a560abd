package actors

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/internal/localfile/sqlitefile"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/snapshotactor"
	"github.com/leasehold/leasehold/stores"
)

// Config describes a node. The zero value is a node on the embedded defaults; Start fills in every
// field that is zero.
type Config struct {
	// NodeName names the node in owner ids; default: the host name. A lease under this name is waited
	// out: it is taken for a predecessor's, until it is seen to be renewed. So two nodes that run at the
	// same time should not share a name: each is told only after a renewal that the other holds a tenant.
	NodeName string
	// StateRoot is the folder of the node's local files; default "leasehold-data". One node at a
	// time may use it: Start takes an exclusive lock. Its path may have some 340 bytes: SQLite takes 512 for each
	// file of a ledger.
	StateRoot string
	// Lock is a state root that the caller has locked, with LockRoot, and closes after the node; StateRoot does not count then. Default:
	// Start locks StateRoot.
	Lock *RootLock

	// Leases is the lease store; default: a SQLite file, leases.db, in the state root. The caller
	// closes what the caller opened.
	Leases stores.LeaseStore
	// Durable is the durable store; default: the folder durable in the state root.
	Durable stores.DurableStore

	// TTL is a lease's time to live (default 10 s), Margin what the holder gives up at its end
	// (default TTL/4), RenewEvery the pause between renewals (default TTL/5). A holder may
	// acknowledge until TTL − Margin after it sent its last successful renewal.
	TTL, Margin, RenewEvery time.Duration
	// StoreTimeout bounds one request to the lease store; default TTL/4.
	StoreTimeout time.Duration
	// DurableTimeout bounds one request to the durable store; default 30 s.
	DurableTimeout time.Duration

	// SnapshotEvery is the pause between periodic snapshots of a tenant that was written to: what a
	// crash may lose; default 5 s.
	SnapshotEvery time.Duration
	// MaxUnsaved and MaxUnsavedBytes bound what a tenant has acknowledged and no snapshot holds: by the age of the oldest such
	// write (default 10 × SnapshotEvery), and by the bytes that were written since (default 256 MiB; ledgeractor.Handle.Unsaved
	// says what counts). Beyond that writes are refused with CodeUnsavedLimit, and reads go on, until a snapshot has been
	// published: so an outage of the durable store does not make the possible loss grow for ever.
	MaxUnsaved      time.Duration
	MaxUnsavedBytes int64
	// Retention says which old snapshots are kept besides the newest.
	Retention snapshotactor.Retention
	// SweepEvery is the pause between sweeps of forgotten tenants; default 10 min.
	SweepEvery time.Duration
	// SetAsideFor is how long local files of an ended ownership are kept aside; default 24 h. They
	// are never served again.
	SetAsideFor time.Duration

	// IdleAfter closes a tenant that nobody used for so long, by handoff; default 10 min, negative: never.
	IdleAfter time.Duration
	// MaxOpen bounds the open tenants; the least recently used idle one makes room; default 10,000.
	MaxOpen int
	// MaxRequests bounds the requests in flight on the node, and MaxTenantRequests on one tenant;
	// beyond that a request is refused with CodeOverloaded at once. Defaults 10,000 and 1,000.
	MaxRequests, MaxTenantRequests int
	// MaxRequestBytes bounds what the requests on the node, and the answers that are being sent, have in bytes all together,
	// while they are received and until they are answered: see Intake. Default 256 MiB, at least messages.MaxMessageBytes.
	MaxRequestBytes int64
	// MaxTransfers bounds the snapshots and restores under way at a time, each of which holds a
	// whole image in memory; default 8. A quarter is kept for opens, handoffs and last snapshots.
	MaxTransfers int
	// HandoffParallel bounds the handoffs of a shutdown that run at a time; default 32.
	HandoffParallel int
	// RequestTimeout is the deadline of a request whose context has none; default 30 s.
	RequestTimeout time.Duration
	// OpenTimeout bounds an open, restore included, whatever its callers' deadlines; default 10 min.
	OpenTimeout time.Duration

	// Migrations and Commands are the application's part of every ledger.
	Migrations []ledgeractor.Migration
	Commands   map[string]ledgeractor.Command
	// Limits bounds what a request may read or write.
	Limits ledgeractor.Limits
	// MaxQueries is the number of queries that run at a time on the node, of all tenants; they take turns, fairly by tenant.
	// Default 4.
	MaxQueries int
	// QueryProcesses makes queries run in processes of their own, each with QueryMemory bytes for SQLite (default 256 MiB):
	// see ledgeractor.QueriesConfig. SQL that others write needs it.
	QueryProcesses bool
	QueryMemory    int64

	// OnLifecycle is called with every lifecycle event, in the order of each tenant, on the
	// tenant's own goroutine: it must not block. What a periodic sweep deletes is reported on the
	// sweep's goroutine. A panic is logged, and changes nothing.
	OnLifecycle func(messages.Lifecycle)
	// Registerer takes the node's metrics; default: a registry of its own.
	Registerer prometheus.Registerer
	// Log takes the node's log; default slog.Default().
	Log *slog.Logger
	// Now is the node's clock; default time.Now. Windows are measured by its monotonic part.
	Now func() time.Time
	// Incarnation makes the owner id unique; default: random, as it must be outside of tests.
	Incarnation string

	// Planted switches protocol rules off, for the drill and the simulation only.
	Planted planted.Set
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (c Config) withDefaults() Config {
	if c.NodeName == "" {
		c.NodeName, _ = os.Hostname()
		orDefault(&c.NodeName, "node")
	}
	orDefault(&c.StateRoot, "leasehold-data")
	orDefault(&c.TTL, 10*time.Second)
	orDefault(&c.Margin, (c.TTL / 4).Truncate(time.Millisecond))
	orDefault(&c.RenewEvery, c.TTL/5)
	orDefault(&c.StoreTimeout, c.TTL/4)
	orDefault(&c.DurableTimeout, 30*time.Second)
	orDefault(&c.SnapshotEvery, 5*time.Second)
	orDefault(&c.MaxUnsaved, 10*c.SnapshotEvery)
	orDefault(&c.MaxUnsavedBytes, 256<<20)
	orDefault(&c.SweepEvery, 10*time.Minute)
	orDefault(&c.SetAsideFor, 24*time.Hour)
	orDefault(&c.IdleAfter, 10*time.Minute)
	orDefault(&c.MaxOpen, 10_000)
	orDefault(&c.MaxRequests, 10_000)
	orDefault(&c.MaxTenantRequests, 1_000)
	orDefault(&c.MaxRequestBytes, 256<<20)
	orDefault(&c.MaxTransfers, 8)
	orDefault(&c.HandoffParallel, 32)
	orDefault(&c.MaxQueries, 4)
	orDefault(&c.QueryMemory, 256<<20)
	orDefault(&c.RequestTimeout, 30*time.Second)
	orDefault(&c.OpenTimeout, 10*time.Minute)
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// anyKey is a well-formed key that is nobody's.
var anyKey = messages.Key{Org: "any", Tenant: "t-00000000000000000000000000000000"}

// Validate returns an error that names every field out of its range. Zero fields are in range: they
// stand for their defaults. Of the disk it only looks at the symbolic links in StateRoot.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf(format, args...)})
	}
	if err := messages.ValidateTTL(c.TTL); err != nil {
		errs = append(errs, err)
	}
	if err := messages.ValidateOwner(c.NodeName); err != nil {
		errs = append(errs, fmt.Errorf("node name: %w", err))
	} else if err := messages.ValidateOwner(messages.NewOwner(c.NodeName, cmp.Or(c.Incarnation, uuid.Nil.String()))); err != nil {
		errs = append(errs, fmt.Errorf("node name with incarnation: %w", err))
	}
	// Of the ledger's part only what is the same for every tenant is looked at here.
	ledger := ledgeractor.Config{Path: string(filepath.Separator) + ledgerFile, Key: anyKey, Fence: leaseactor.NewFence(nil),
		Migrations: c.Migrations, Commands: c.Commands, Limits: c.Limits}
	if err := ledger.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("ledger: %w", err))
	}
	if err := c.queriesConfig().Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := checkRoot(c.StateRoot); err != nil {
		errs = append(errs, err)
	}
	if c.Margin < 0 || c.Margin >= c.TTL {
		fail("margin %v is not from 0 to below the ttl %v", c.Margin, c.TTL)
	}
	if c.RenewEvery <= 0 || c.RenewEvery >= c.TTL-c.Margin {
		fail("renewal every %v does not fit into the window of %v", c.RenewEvery, c.TTL-c.Margin)
	}
	if c.StoreTimeout >= c.TTL-c.Margin {
		fail("store timeout %v leaves no time for another try in the window of %v", c.StoreTimeout, c.TTL-c.Margin)
	}
	if c.MaxUnsaved <= c.SnapshotEvery {
		fail("unsaved writes of up to %v leave no time for a snapshot every %v", c.MaxUnsaved, c.SnapshotEvery)
	}
	if c.MaxUnsavedBytes < 1 {
		fail("the bound of unsaved bytes must be at least 1, is %d", c.MaxUnsavedBytes)
	}
	for name, d := range map[string]time.Duration{
		"store timeout": c.StoreTimeout, "durable timeout": c.DurableTimeout, "snapshot interval": c.SnapshotEvery,
		"sweep interval": c.SweepEvery, "set-aside time": c.SetAsideFor, "request timeout": c.RequestTimeout, "open timeout": c.OpenTimeout,
	} {
		if d <= 0 {
			fail("%s must be positive, is %v", name, d)
		}
	}
	for name, n := range map[string]int{
		"open tenants": c.MaxOpen, "requests": c.MaxRequests, "requests of a tenant": c.MaxTenantRequests,
		"transfers": c.MaxTransfers, "parallel handoffs": c.HandoffParallel,
	} {
		if n < 1 {
			fail("the bound of %s must be at least 1, is %d", name, n)
		}
	}
	if c.MaxRequestBytes < messages.MaxMessageBytes {
		fail("the bound of all requests in bytes must be at least %d, is %d", messages.MaxMessageBytes, c.MaxRequestBytes)
	}
	return errors.Join(errs...)
}

// checkRoot refuses a state root in which SQLite could not open every ledger, wherever it is put.
func checkRoot(root string) error {
	key := messages.Key{Org: messages.OrgID(strings.Repeat("o", 63)), Tenant: anyKey.Tenant} // no id is longer
	folder, err := key.Root(string(filepath.Separator))
	if err != nil {
		panic(err) // the key is well formed
	}
	// The longest name: set aside for the 9,999th time, and being copied (ledgeractor) or restored (snapshotactor).
	longest := filepath.Join(folder, asideFolder, epochFolder(math.MaxUint64)+".9999", ledgerFile+".restore")
	return sqlitefile.CheckPath("the state root", root, longest)
}

func (c Config) leasePath() string   { return filepath.Join(c.StateRoot, "leases.db") }
func (c Config) durablePath() string { return filepath.Join(c.StateRoot, "durable") }
