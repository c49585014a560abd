package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
)

// keepRenewals bounds the renewals in the audit trail of a tenant in the embedded lease store; grants
// and releases are kept for ever.
const keepRenewals = 1000

// renewalsPerTrip bounds one batch of renewals; a binding may cut it into several round trips.
const renewalsPerTrip = 1000

// Node serves tenants. All methods are safe for concurrent use.
type Node struct {
	cfg        Config
	owner      string
	start      time.Time // of the node's clock; durations since it go into atomics
	deployment string    // the identity that both stores carry; "": the lease store carries none
	metrics    *metrics
	alarms     *alarms
	leases     *stores.Batched // cfg.Leases, with the renewals of many tenants in one round trip
	system     *mailbox.System
	supervisor *mailbox.Ref
	spent      *leaseactor.Spent
	transfers  chan struct{}        // a slot for each snapshot or restore under way
	urgent     chan struct{}        // the rest of them, for tenants that do not serve meanwhile
	queries    *ledgeractor.Queries // shared by the ledgers of all tenants
	looking    chan struct{}        // a slot for each look at the durable store for a tenant without a record
	examining  chan struct{}        // held by whoever compares local files of an ended ownership
	lock       *RootLock
	opened     []any // what Start opened itself, the lock first: all are io.Closers

	// Shared with callers, who must not wait for a mailbox to learn these.
	copies    copies
	active    sync.Map // messages.Key → *activation; written by the supervisor alone
	inFlight  atomic.Int64
	intake    *Intake
	disk      disk
	aborted   atomic.Bool
	ended     chan struct{} // closed when the node begins to stop its actors
	down      chan struct{} // closed when the node has stopped
	stopping  atomic.Bool
	rehearsed atomic.Bool     // the migrations have run on an empty ledger (tenant.rehearsal)
	life      context.Context // of application code: done when ended is closed
	kill      context.CancelFunc
}

// Start starts a node. It creates the state root, takes its lock, and opens the embedded stores
// where cfg names none. It returns CodeInvalidArgument for a configuration that Validate refuses, the errors of LockRoot,
// and CodeDeploymentMismatch if the two stores do not belong together (see stores.Bind). A start that is refused leaves
// no folder or file behind that it has created; of stores that the caller has opened see stores.Open.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.Incarnation == "" {
		cfg.Incarnation = uuid.NewString()
	}
	n := &Node{
		cfg: cfg, owner: messages.NewOwner(cfg.NodeName, cfg.Incarnation), start: cfg.Now(), alarms: newAlarms(cfg.Now), intake: newIntake(cfg.MaxRequestBytes),
		spent: leaseactor.NewSpent(), transfers: make(chan struct{}, cfg.MaxTransfers-cfg.MaxTransfers/urgentShare), urgent: make(chan struct{}, cfg.MaxTransfers/urgentShare), examining: make(chan struct{}, 1), looking: make(chan struct{}, 4), down: make(chan struct{}), ended: make(chan struct{}),
	}
	n.life, n.kill = context.WithCancel(context.Background())
	if err := n.open(ctx); err != nil {
		n.kill()
		return nil, errors.Join(err, n.close(true))
	}
	n.system = mailbox.NewSystem(cfg.Log)
	n.supervisor = n.system.Spawn(newSupervisor(n))
	cfg.Log.Info("node started", "owner", n.owner, "ttl", cfg.TTL, "margin", cfg.Margin)
	if cfg.Planted != 0 {
		cfg.Log.Warn("protocol rules are switched off", "planted", cfg.Planted.String())
	}
	return n, nil
}

func (n *Node) open(ctx context.Context) (err error) {
	if n.lock = n.cfg.Lock; n.lock == nil {
		if n.lock, err = LockRoot(n.cfg.StateRoot); err != nil {
			return err
		}
		n.opened = append(n.opened, n.lock)
	}
	n.cfg.StateRoot = n.lock.Root()
	if n.cfg.Leases, n.cfg.Durable, err = stores.Open(ctx, n.openLeases, n.openDurable); err != nil {
		return err
	}
	most := n.maxImage()
	if l, ok := n.cfg.Durable.(stores.ObjectLimiter); ok && l.MaxObjectBytes() < most {
		return &messages.Error{Code: messages.CodeInvalidArgument,
			Message: fmt.Sprintf("ledgers of up to %d bytes could not be copied: the largest object of the durable store has %d", most, l.MaxObjectBytes())}
	}
	temp, err := n.lock.folder(tempFolder)
	if err == nil {
		err = ledgeractor.UseTempDir(temp)
	}
	if err != nil {
		return err
	}
	if n.queries, err = ledgeractor.NewQueries(n.cfg.queriesConfig()); err != nil {
		return err
	}
	if n.metrics, err = newMetrics(n.cfg.Registerer, append(queryMetrics(n.queries), oldestUnsaved{n}, n.alarms)...); err != nil {
		return err
	}
	if err := n.bind(ctx); err != nil { // the last thing that may refuse: it writes into both stores
		return err
	}
	n.leases = stores.Batch(n.cfg.Leases, min(50*time.Millisecond, n.cfg.RenewEvery/20), renewalsPerTrip)
	return nil
}

// maxImage is the largest ledger that this node takes, in bytes.
func (n *Node) maxImage() int64 {
	return cmp.Or(n.cfg.Limits.MaxImageBytes, ledgeractor.DefaultMaxImageBytes)
}

// openLeases returns the lease store of the configuration, or opens the embedded one.
func (n *Node) openLeases(ctx context.Context, create bool) (stores.LeaseStore, error) {
	if n.cfg.Leases != nil {
		return n.cfg.Leases, nil
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Path: n.cfg.leasePath(), MustExist: !create, KeepRenewals: keepRenewals})
	if err != nil {
		return nil, fmt.Errorf("open the embedded lease store: %w", err)
	}
	n.opened = append(n.opened, s)
	return s, nil
}

// openDurable does the same for the durable store.
func (n *Node) openDurable(ctx context.Context, create bool) (stores.DurableStore, error) {
	if n.cfg.Durable != nil {
		return n.cfg.Durable, nil
	}
	s, err := dir.Open(ctx, dir.Config{Root: n.cfg.durablePath(), MustExist: !create})
	if err != nil {
		return nil, fmt.Errorf("open the embedded durable store: %w", err)
	}
	n.opened = append(n.opened, s)
	return s, nil
}

// close closes what Start has opened; refused: also removes what it has created.
func (n *Node) close(refused bool) error {
	if n.metrics != nil {
		n.metrics.close()
	}
	if n.queries != nil {
		n.queries.Close()
	}
	if n.leases != nil {
		n.leases.Close()
	}
	if refused {
		return stores.Discard(n.opened...)
	}
	var errs []error
	for _, c := range slices.Backward(n.opened) {
		errs = append(errs, c.(io.Closer).Close())
	}
	return errors.Join(errs...)
}

// Owner returns the node's owner id: its name and the incarnation of this start.
func (n *Node) Owner() string { return n.owner }

func (n *Node) log(key messages.Key) *slog.Logger { return n.cfg.Log.With("key", key.String()) }

// sinceStart is the node's clock as a number that fits into an atomic.
func (n *Node) sinceStart() int64 { return int64(n.cfg.Now().Sub(n.start)) }

// Tenants returns the state of every tenant with an actor on this node, in the order of their keys. When ctx ends
// first, it returns its typed error.
func (n *Node) Tenants(ctx context.Context) ([]Status, error) {
	reply := make(chan []*activation, 1)
	if !n.supervisor.Send(list{reply}) {
		return nil, machine.NodeDown()
	}
	var all []*activation
	select {
	case all = <-reply:
	case <-ctx.Done():
		return nil, messages.AsError(ctx.Err())
	}
	var out []Status
	for _, act := range all {
		s, err := act.status(ctx)
		if err != nil {
			if messages.CodeOf(err) == messages.CodeClosed {
				continue // it closed between the list and the question
			}
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
