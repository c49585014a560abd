package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/actors/mailbox"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
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
	metrics    *metrics
	leases     *stores.Batched // cfg.Leases, with the renewals of many tenants in one round trip
	system     *mailbox.System
	supervisor *mailbox.Ref
	spent      *leaseactor.Spent
	transfers  chan struct{} // a slot for each snapshot or restore under way
	urgent     chan struct{} // the rest of them, for tenants that do not serve meanwhile
	lock       *flock.Flock
	closers    []io.Closer // what Start opened itself

	// Shared with callers, who must not wait for a mailbox to learn these.
	copies   copies
	active   sync.Map // messages.Key → *activation; written by the supervisor alone
	inFlight atomic.Int64
	disk     disk
	aborted  atomic.Bool
	ended    chan struct{} // closed when the node begins to stop its actors
	down     chan struct{} // closed when the node has stopped
	stopping atomic.Bool
	life     context.Context // of application code: done when ended is closed
	kill     context.CancelFunc
}

// Start starts a node. It creates the state root, takes its lock, and opens the embedded stores
// where cfg names none. It returns CodeInvalidArgument for a configuration that Validate refuses,
// CodeStorage if the state root cannot be used, and CodeHeld if another node uses it.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.Incarnation == "" {
		cfg.Incarnation = uuid.NewString()
	}
	n := &Node{
		cfg: cfg, owner: messages.NewOwner(cfg.NodeName, cfg.Incarnation), start: cfg.Now(),
		spent: leaseactor.NewSpent(), transfers: make(chan struct{}, cfg.MaxTransfers-cfg.MaxTransfers/urgentShare), urgent: make(chan struct{}, cfg.MaxTransfers/urgentShare), down: make(chan struct{}), ended: make(chan struct{}),
	}
	n.life, n.kill = context.WithCancel(context.Background())
	if err := n.open(ctx); err != nil {
		n.kill()
		return nil, errors.Join(err, n.close())
	}
	n.system = mailbox.NewSystem(cfg.Log)
	n.supervisor = n.system.Spawn(newSupervisor(n))
	cfg.Log.Info("node started", "owner", n.owner, "ttl", cfg.TTL, "margin", cfg.Margin)
	if cfg.Planted != 0 {
		cfg.Log.Warn("protocol rules are switched off", "planted", cfg.Planted.String())
	}
	return n, nil
}

func (n *Node) open(ctx context.Context) error {
	// A ledger's path must be absolute: it must not change its meaning with the working directory.
	root, err := filepath.Abs(n.cfg.StateRoot)
	if err != nil {
		return &messages.Error{Code: messages.CodeStorage, Message: "find the state root", Err: err}
	}
	n.cfg.StateRoot = root
	if err := os.MkdirAll(n.cfg.StateRoot, 0o700); err != nil {
		return &messages.Error{Code: messages.CodeStorage, Message: "create the state root", Err: err}
	}
	n.lock = flock.New(filepath.Join(n.cfg.StateRoot, "node.lock"))
	switch ok, err := n.lock.TryLock(); {
	case err != nil:
		return &messages.Error{Code: messages.CodeStorage, Message: "lock the state root", Err: err}
	case !ok:
		return &messages.Error{Code: messages.CodeHeld, Message: "another node uses this state root"}
	}
	if n.cfg.Leases == nil {
		leases, err := sqlite.Open(ctx, sqlite.Config{Path: n.cfg.leasePath(), KeepRenewals: keepRenewals})
		if err != nil {
			return fmt.Errorf("open the embedded lease store: %w", err)
		}
		n.cfg.Leases, n.closers = leases, append(n.closers, leases)
	}
	if n.cfg.Durable == nil {
		durable, err := dir.Open(ctx, dir.Config{Root: n.cfg.durablePath()})
		if err != nil {
			return fmt.Errorf("open the embedded durable store: %w", err)
		}
		n.cfg.Durable = durable
		if c, ok := any(durable).(io.Closer); ok {
			n.closers = append(n.closers, c)
		}
	}
	n.leases = stores.Batch(n.cfg.Leases, min(50*time.Millisecond, n.cfg.RenewEvery/20), renewalsPerTrip)
	n.metrics, err = newMetrics(n.cfg.Registerer)
	return err
}

func (n *Node) close() error {
	var errs []error
	if n.metrics != nil {
		n.metrics.close()
	}
	if n.leases != nil {
		n.leases.Close()
	}
	for _, c := range n.closers {
		errs = append(errs, c.Close())
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
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
		return nil, errNodeDown()
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

func errNodeDown() error {
	return &messages.Error{Code: messages.CodeDraining, Message: "the node is shutting down"}
}
