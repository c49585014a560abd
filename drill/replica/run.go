package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/storetest"
)

// Commands of the drill. Each is recorded as Obeyed once it has taken effect.
const (
	HoldLeases       = "hold-leases"       // no call of the lease store is under way, and none gets through
	ReleaseLeases    = "release-leases"    // …
	HoldImages       = "hold-images"       // images stay on their way
	ReleaseImages    = "release-images"    // …
	HoldManifests    = "hold-manifests"    // no put of a manifest is under way, and none gets through
	ReleaseManifests = "release-manifests" // …
	SlowWrites       = "slow-writes"       // half of the writers hold their transactions open for a while
	NormalWrites     = "normal-writes"     // …
	StandBack        = "stand-back"        // open no tenant any more
	Reach            = "reach"             // the lease store and the durable store have answered
)

// drainTimeout bounds the handoff of everything at SIGTERM.
const drainTimeout = 10 * time.Second

// replica is a running one.
type replica struct {
	cfg     Config
	keys    []messages.Key
	node    *actors.Node
	log     *record.Writer
	slog    *slog.Logger
	gates   map[string]*gate // by the command that holds it
	release map[string]*gate // by the command that releases it
	slow    atomic.Bool
	stand   chan struct{} // closed: open nothing any more
	once    sync.Once
	opened  chan struct{} // closed: leases and objects are set
	leases  stores.LeaseStore
	objects stores.DurableStore
}

// Run runs a replica until SIGTERM, or until commands ends: then it exits at once, as its drill is gone.
func Run(ctx context.Context, cfg Config, commands io.Reader) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	leases, images, manifests := newGate(), newGate(), newGate()
	r := &replica{cfg: cfg, stand: make(chan struct{}), opened: make(chan struct{}),
		gates:   map[string]*gate{HoldLeases: leases, HoldImages: images, HoldManifests: manifests},
		release: map[string]*gate{ReleaseLeases: leases, ReleaseImages: images, ReleaseManifests: manifests},
		slog:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})).With("proc", cfg.Proc())}
	if r.keys, err = cfg.keys(); err != nil {
		return err
	}
	if r.log, err = record.Create(RecordPath(cfg.Dir, cfg.Proc()), cfg.Proc()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.log.Close()) }()
	go r.obey(commands)
	return r.serve(ctx)
}

func (r *replica) serve(ctx context.Context) error {
	// The stores and the node outlive the signal: they are needed to hand off.
	background := context.WithoutCancel(ctx)
	store, err := r.cfg.Stores.OpenLeases(background)
	if err != nil {
		return fmt.Errorf("open the lease store: %w", err)
	}
	defer store.Close()
	objects, err := r.cfg.Stores.OpenDurable(background)
	if err != nil {
		return fmt.Errorf("open the durable store: %w", err)
	}
	defer objects.Close()
	r.leases, r.objects = store, objects
	close(r.opened)
	faults, err := planted.Parse(r.cfg.Planted)
	if err != nil {
		return err
	}
	r.node, err = actors.Start(background, actors.Config{
		NodeName: r.cfg.Node, StateRoot: StateRoot(r.cfg.Dir, r.cfg.Node),
		Leases:  &leases{LeaseStore: r.broken(store), DeploymentKeeper: store, gate: r.gates[HoldLeases], log: r.log},
		Durable: &durable{DurableStore: objects, dir: r.cfg.Dir, remote: r.cfg.Stores.Durable.Kind.HasServer(), images: r.gates[HoldImages], manifests: r.gates[HoldManifests], log: r.log, slog: r.slog},
		TTL:     TTL, Margin: Margin, RenewEvery: RenewEvery, SnapshotEvery: SnapshotEvery, IdleAfter: -1,
		MaxUnsaved: time.Minute, // a replica that was frozen must be stopped by its fence, not by this
		Commands:   map[string]ledgeractor.Command{commandNote: note, commandSlow: slowNote},
		Planted:    faults, Log: r.slog,
		OnLifecycle: func(e messages.Lifecycle) {
			if e.Kind != messages.LifecycleRenewed {
				r.write(record.Line{Kind: record.Lifecycle, Key: e.Key.String(), Owner: e.Owner, Epoch: e.Epoch, Life: &e})
			}
		},
	})
	if err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	r.write(record.Line{Kind: record.Started, Owner: r.node.Owner(), PID: os.Getpid()})
	writing, stopWriting := context.WithCancel(background)
	defer stopWriting()
	var all sync.WaitGroup
	for _, key := range r.keys {
		all.Go(func() { r.contend(writing, key) })
	}
	<-ctx.Done()
	// The writers keep the handles that they were given, and go on during the drain.
	draining, cancel := context.WithTimeout(background, drainTimeout)
	defer cancel()
	err = r.node.Shutdown(draining)
	r.write(record.Line{Kind: record.Stopped, Owner: r.node.Owner(), Code: messages.CodeOf(err)})
	stopWriting()
	all.Wait()
	return err
}

func (r *replica) broken(real stores.LeaseStore) stores.LeaseStore {
	if r.cfg.LeaseStore == StoreNoCompareAndSet {
		return storetest.NoCompareAndSet(real)
	}
	return real
}

// obey carries out the drill's commands.
func (r *replica) obey(commands io.Reader) {
	in := bufio.NewScanner(commands)
	for in.Scan() {
		command := in.Text()
		switch held, released := r.gates[command], r.release[command]; {
		case held != nil:
			_ = held.hold(context.Background()) // which never ends
		case released != nil:
			released.release()
		case command == SlowWrites || command == NormalWrites:
			r.slow.Store(command == SlowWrites)
		case command == StandBack:
			r.once.Do(func() { close(r.stand) })
		case command == Reach:
			r.reach()
		default:
			r.slog.Error("an unknown command of the drill", "command", command)
			continue
		}
		r.write(record.Line{Kind: record.Obeyed, Op: command})
	}
	r.slog.Error("the drill is gone")
	os.Exit(3)
}

func (r *replica) write(l record.Line) {
	if err := r.log.Write(l); err != nil {
		// Without its record the run proves nothing.
		r.slog.Error("the record cannot be written", "error", err)
		os.Exit(4)
	}
}
