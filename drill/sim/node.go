package sim

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// node is a machine of the fleet: one process after the other runs on it, on the same disk.
type node struct {
	w    *world
	name string
	root string

	// turn holds one token while no process of the node starts or ends. A mutex would stop the
	// simulated time for those who wait.
	turn chan struct{}

	mu      sync.Mutex
	starts  int
	life    *life // nil: down
	healing bool
}

// life is one process of a node.
type life struct {
	node     *actors.Node
	owner    string
	process  *process
	leases   *link
	durable  *link
	crashed  chan struct{} // closed when it was killed
	crashing sync.Once
	killed   time.Time // when it was; guarded by world.mu
}

func newNode(w *world, name string) *node {
	n := &node{w: w, name: name, root: filepath.Join(w.root, name), turn: make(chan struct{}, 1)}
	n.turn <- struct{}{}
	return n
}

// start starts a process on the node, unless one runs.
func (n *node) start() error {
	<-n.turn
	defer func() { n.turn <- struct{}{} }()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.w.mu.Lock()
	stopped := n.w.stopped
	n.w.mu.Unlock()
	if n.life != nil || stopped {
		return nil
	}
	n.starts++
	incarnation := fmt.Sprint(n.starts)
	owner := messages.NewOwner(n.name, incarnation)
	r := stream(n.w.Seed, owner)
	p := newProcess(1 - n.w.Profile.Lag*r.Float64())
	l := &life{owner: owner, process: p, leases: newLink(n.w, p, owner+" lease"), durable: newLink(n.w, p, owner+" durable"), crashed: make(chan struct{})}
	l.leases.healed, l.durable.healed = n.healing, n.healing
	idle := n.w.Profile.IdleAfter
	if idle == 0 {
		idle = -1
	}
	var err error
	l.node, err = actors.Start(context.Background(), actors.Config{
		NodeName: n.name, Incarnation: incarnation, StateRoot: n.root,
		Leases: leases{l.leases, owner}, Durable: durable{l.durable, owner},
		TTL: ttl, Margin: margin, RenewEvery: renewEvery, StoreTimeout: storeTimeout, DurableTimeout: durableTimeout,
		SnapshotEvery: snapshotEvery, SweepEvery: sweepEvery, OpenTimeout: openTimeout, IdleAfter: idle,
		RequestTimeout: 10 * time.Second, Retention: n.w.Profile.Retention,
		Commands: n.w.Commands, Migrations: n.w.Migrations, Limits: ledgeractor.Limits{MaxReaders: 1, CacheKiB: 64},
		OnLifecycle: n.w.happened, Now: p.Now, Planted: n.w.Planted, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", owner, err)
	}
	n.life = l
	n.w.mu.Lock()
	n.w.lives[owner] = l
	n.w.mu.Unlock()
	n.w.logf("%s started", owner)
	return nil
}

// current returns the running process; nil if the node is down.
func (n *node) current() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

// crash kills the process: nothing that it has not sent yet is ever sent, what is under way may
// arrive, and nobody hears its answers any more.
func (n *node) crash() {
	<-n.turn
	defer func() { n.turn <- struct{}{} }()
	n.mu.Lock()
	l := n.life
	n.life = nil
	n.mu.Unlock()
	if l == nil {
		return
	}
	n.w.logf("%s is killed", l.owner)
	n.w.mu.Lock()
	l.killed = time.Now()
	n.w.mu.Unlock()
	l.kill()
	n.w.count(func(s *Stats) { s.Crashes++ })
}

func (l *life) kill() {
	l.crashing.Do(func() {
		close(l.crashed)
		close(l.process.dead)
		l.process.resume(false)
	})
	_ = l.node.Abort() // it closes what it can; a killed process has no last word
	<-l.node.Done()    // a request under way may take its time; the next process must not find this one's lock
}

func (l *life) dead() bool {
	select {
	case <-l.crashed:
		return true
	default:
		return false
	}
}

// heal ends every fault of the node, for good.
func (n *node) heal() {
	n.mu.Lock()
	n.healing = true
	l := n.life
	n.mu.Unlock()
	if l == nil {
		return
	}
	l.process.resume(false)
	for _, k := range []*link{l.leases, l.durable} {
		k.set(func() { k.healed, k.down, k.gray = true, false, false })
	}
}

func (w *world) count(change func(*Stats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.stats)
}
