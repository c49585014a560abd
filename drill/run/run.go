package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/drill/slow"
	"github.com/leasehold/leasehold/drill/verify"
)

// Run does one whole drill: it starts the replicas, goes through the schedule, hands everything off,
// takes every tenant over, and judges what was recorded. The verdict says whether an invariant broke;
// an error says that the drill itself could not be done. No process is left behind in any case.
func Run(ctx context.Context, opts Options) (verdict verify.Verdict, err error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return verify.Verdict{}, err
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return verify.Verdict{}, fmt.Errorf("the folder of the run: %w", err)
	}
	begun := time.Now()
	meter := slow.Start(opts.Dir)
	defer func() {
		if errors.Is(err, errTimeout) {
			err = meter.Excuse(err, replica.Margin)
		}
		meter.Stop()
	}()
	where := engine.Stores{Leases: engine.Store{Kind: opts.Leases, At: replica.LeasePath(opts.Dir)},
		Durable: engine.Store{Kind: opts.Durable, At: replica.DurableDir(opts.Dir)}}
	where, servers, err := engine.Start(ctx, where, replica.ServersDir(opts.Dir), opts.Server)
	if err != nil {
		return verify.Verdict{}, err
	}
	defer func() { err = errors.Join(err, servers.Stop()) }()
	d, err := newDrill(ctx, opts, where, begun)
	if err != nil {
		return verify.Verdict{}, err
	}
	d.fleet.servers = servers
	defer func() { err = errors.Join(err, d.fleet.unwire()) }()
	if err := d.fleet.wire(where); err != nil {
		return verify.Verdict{}, errors.Join(err, d.fleet.log.Close())
	}
	err = d.play(ctx)
	if err = errors.Join(err, d.fleet.log.Close()); err != nil {
		return verify.Verdict{}, err
	}
	d.print("-- the verifier takes every tenant over")
	if err := verify.TakeOver(ctx, opts.Dir, where, d.fleet.keys, func(format string, args ...any) { d.print("   "+format, args...) }); err != nil {
		return verify.Verdict{}, err
	}
	if err := verify.Export(ctx, opts.Dir, where, d.fleet.keys); err != nil {
		return verify.Verdict{}, err
	}
	verdict, err = verify.Judge(ctx, opts.Dir)
	verdict.Took, verdict.Slow = time.Since(begun), meter.Stop()
	verdict.TooSlow = verdict.Slow.TooSlow(replica.Margin)
	return verdict, err
}

// drill is one run.
type drill struct {
	opts  Options
	info  verify.Info
	fleet *fleet
	print func(format string, args ...any)
}

func newDrill(ctx context.Context, opts Options, where engine.Stores, begun time.Time) (*drill, error) {
	keys, err := keys(opts.Tenants)
	if err != nil {
		return nil, err
	}
	broken, err := breakNamed(opts.Break)
	if err != nil {
		return nil, err
	}
	only := opts.Only
	if only == nil {
		only = broken.Steps
	}
	if only == nil && opts.HasServer() {
		only = serverRound
	}
	duration := opts.Duration
	if broken.Name != "" { // each of its steps once
		duration = 0
		for _, s := range only {
			duration += s.Cost()
		}
	}
	d := &drill{opts: opts}
	cfg := replica.Config{Dir: opts.Dir, Writers: opts.Writers, Pace: opts.Pace, Seed: opts.Seed, Stores: where,
		Planted: broken.Planted.String(), LeaseStore: broken.LeaseStore}
	d.info = verify.Info{Seed: opts.Seed, Replicas: opts.Replicas, Break: opts.Break, Leases: opts.Leases, Durable: opts.Durable, Begun: begun.UTC()}
	for _, key := range keys {
		cfg.Tenants = append(cfg.Tenants, key.String())
	}
	d.info.Tenants = cfg.Tenants
	plan := Schedule(opts.Seed, opts.Tenants, duration, only)
	for _, p := range plan {
		d.info.Schedule = append(d.info.Schedule, p.String())
	}
	data, err := json.MarshalIndent(d.info, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(opts.Dir, verify.InfoName), data, 0o600); err != nil {
		return nil, fmt.Errorf("the folder of the run: %w", err)
	}
	// The stores exist before anybody contends for them.
	if err := createStores(ctx, where); err != nil {
		return nil, err
	}
	d.print = record.Printer(opts.Out, begun)
	log, err := record.Create(replica.RecordPath(opts.Dir, "drill"), "drill")
	if err != nil {
		return nil, err
	}
	d.fleet = newFleet(opts, cfg, keys, log, d.print)
	d.fleet.plan = plan
	return d, nil
}

func createStores(ctx context.Context, where engine.Stores) error {
	leases, err := where.OpenLeases(ctx)
	if err != nil {
		return err
	}
	objects, err := where.OpenDurable(ctx)
	if err != nil {
		return errors.Join(err, leases.Close())
	}
	return errors.Join(leases.Close(), objects.Close())
}

// play starts the replicas, goes through the schedule, and ends them.
func (d *drill) play(ctx context.Context) error {
	f := d.fleet
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watcher sync.WaitGroup
	watcher.Go(func() { f.watch(watching) })
	defer watcher.Wait()
	defer stop()
	defer f.killAll()
	d.print("-- %d replicas, %d tenants, seed %d, leases %s, durable %s%s", d.opts.Replicas, d.opts.Tenants, d.opts.Seed,
		d.opts.Leases, d.opts.Durable, breaking(d.opts.Break))
	for i, p := range f.plan {
		d.print("   step %d: %s", i+1, p)
	}
	for i := range d.opts.Replicas {
		if err := f.launch(i); err != nil {
			return err
		}
	}
	if err := f.running(ctx); err != nil {
		return err
	}
	// What does not come about in time is a finding: a tenant was not served.
	stuck := func(what string, err error) error {
		d.print("!! %s: %v", what, err)
		return f.log.Write(record.Line{Kind: record.Action, Op: verify.OpStuck, Text: what + ": " + err.Error()})
	}
	err := d.steps(ctx)
	if errors.Is(err, errTimeout) {
		err = stuck("the schedule", err)
	}
	if err != nil {
		return err
	}
	err = f.finish(ctx)
	if errors.Is(err, errTimeout) {
		err = stuck("the end", err)
	}
	return errors.Join(err, ctx.Err())
}

// steps goes through the schedule.
func (d *drill) steps(ctx context.Context) error {
	for _, p := range d.fleet.plan {
		if err := d.fleet.step(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if d.opts.Break != "" {
		return nil // its damage is done
	}
	return d.fleet.settled(ctx, 0)
}

func breaking(name string) string {
	if name == "" {
		return ""
	}
	return ", broken on purpose: " + name
}
