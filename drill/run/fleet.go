package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/messages"
)

// lookEvery is how often the drill reads what the replicas have recorded.
const lookEvery = 4 * time.Millisecond

// fleet is the replicas, and what is known about them from their records.
type fleet struct {
	opts  Options
	cfg   replica.Config // of every replica; Node and Start aside
	keys  []messages.Key
	log   *record.Writer
	print func(format string, args ...any)

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with every new line
	procs   []*proc       // all that were ever started
	nodes   []*proc       // the newest process of each node
	starts  []int
	servers engine.Servers  // of the stores
	wires   []*engine.Wire  // of each node, if there are servers
	places  []engine.Stores // where each node finds its stores
	plan    []Planned
	limit   time.Duration // until another node serves
	tenants []tenant
	index   map[string]int // of a key
	err     error          // a record that cannot be read
}

// tenant is what the records say about one.
type tenant struct {
	name    string
	owner   *proc // that serves it; nil: nobody
	epoch   uint64
	highest uint64 // epoch that ever served
	counted uint64 // snapshots of this epoch
	acks    int    // of this epoch
	asked   int64  // when the newest write that was acknowledged was sent, by record.Now
	cut     int64  // when the newest snapshot counted
}

func newFleet(opts Options, cfg replica.Config, keys []messages.Key, log *record.Writer, print func(string, ...any)) *fleet {
	limit := takeoverLimit
	if opts.Break != "" {
		limit = brokenLimit
	}
	f := &fleet{limit: limit, opts: opts, cfg: cfg, keys: keys, log: log, print: print, changed: make(chan struct{}), index: map[string]int{},
		nodes: make([]*proc, opts.Replicas), starts: make([]int, opts.Replicas)}
	for i, key := range keys {
		f.index[key.String()] = i
		f.tenants = append(f.tenants, tenant{name: fmt.Sprintf("t%d", i+1)})
	}
	return f
}

// launch starts the next process of a node.
func (f *fleet) launch(index int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts[index]++
	cfg := f.cfg
	cfg.Node, cfg.Start, cfg.Stores = fmt.Sprintf("r%d", index+1), f.starts[index], f.places[index]
	p, err := start(f.opts.Exe, index, cfg)
	if err != nil {
		return err
	}
	f.procs = append(f.procs, p)
	f.nodes[index] = p
	return f.log.Write(record.Line{Kind: record.Action, Op: "start", Target: p.name, PID: p.cmd.Process.Pid})
}

// watch reads the records until ctx ends.
func (f *fleet) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		f.look()
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.look()
			for _, p := range f.procs {
				_ = p.tail.Close() // it was only read
			}
			return
		}
	}
}

func (f *fleet) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	news := false
	for _, p := range f.procs {
		lines, err := p.tail.Next()
		if err != nil {
			f.err = errors.Join(f.err, fmt.Errorf("%s: %w", p.name, err))
		}
		for _, l := range lines {
			f.observe(p, l)
			news = true
		}
	}
	if news {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// observe takes one line of a process in.
func (f *fleet) observe(p *proc, l record.Line) {
	var t *tenant
	i, known := f.index[l.Key]
	if known {
		t = &f.tenants[i]
	}
	switch l.Kind {
	case record.Started:
		p.started = true
	case record.Stopped:
		if l.Code != "" {
			f.print("%s could not hand everything off: %s", p.name, l.Code)
		}
	case record.Obeyed:
		p.obeyed[l.Op]++
	case record.PutBegun:
		if strings.HasSuffix(l.Object, ".db") {
			p.uploads[l.Object] = true
		}
	case record.PutEnded:
		delete(p.uploads, l.Object)
	case record.LeaseCall:
		p.remember(i, l)
	case record.Ack:
		if t != nil && t.owner == p {
			t.acks++
			t.asked = max(t.asked, l.Since)
		}
	case record.Lifecycle:
		if t != nil && l.Life != nil {
			f.lived(p, t, *l.Life)
			if l.Life.Kind == messages.LifecycleSnapshot && t.owner == p {
				t.cut = max(t.cut, l.At)
			}
		}
	}
}

// lived takes a lifecycle event in, and shows it.
func (f *fleet) lived(p *proc, t *tenant, e messages.Lifecycle) {
	show := func(format string, args ...any) {
		f.print("%s e%-2d %-5s "+format, append([]any{t.name, e.Epoch, p.name}, args...)...)
	}
	switch e.Kind {
	case messages.LifecycleServing:
		t.owner, t.epoch, t.highest, t.counted, t.acks = p, e.Epoch, max(t.highest, e.Epoch), 0, 0
		show("serves, with %d events", e.Events)
	case messages.LifecycleRestored:
		show("restored %s", e.Position)
	case messages.LifecycleSnapshot:
		if t.owner == p {
			t.counted++
		}
	case messages.LifecycleDraining:
		show("drains")
	case messages.LifecycleReleased:
		f.left(p, t)
		show("released, flushed=%v", e.Flushed != nil && *e.Flushed)
	case messages.LifecycleFenced:
		show("fenced: %s", e.Reason)
	case messages.LifecycleResumed:
		show("resumed")
	case messages.LifecycleLost:
		f.left(p, t)
		show("lost its lease")
	case messages.LifecycleClosed:
		f.left(p, t)
	case messages.LifecycleFailed, messages.LifecycleSnapFail, messages.LifecycleCorrupt, messages.LifecycleFilesLost, messages.LifecyclePanic, messages.LifecycleUndrained:
		show("%s: %s %s %s", e.Kind, e.Code, e.Reason, e.Object)
	}
}

func (f *fleet) left(p *proc, t *tenant) {
	if t.owner == p {
		t.owner = nil
	}
}

var errTimeout = errors.New("it did not happen in time")

// await waits until cond is true. cond is called with the lock held.
func (f *fleet) await(ctx context.Context, limit time.Duration, what string, cond func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		f.mu.Lock()
		ok, changed, err := cond(), f.changed, f.err
		f.mu.Unlock()
		switch {
		case err != nil:
			return err
		case ok:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errTimeout)
		}
	}
}

// running waits until the newest process of every node runs.
func (f *fleet) running(ctx context.Context) error {
	return f.await(ctx, startLimit, "every replica runs", func() bool {
		for _, p := range f.nodes {
			if !p.started {
				return false
			}
		}
		return true
	})
}

// act records and shows what the drill does, then does it.
func (f *fleet) act(op string, p *proc, do func() error) error {
	f.print(">> %-8s %s  %s", strings.ToUpper(op), p.name, f.owns(p))
	if err := f.log.Write(record.Line{Kind: record.Action, Op: op, Target: p.name, PID: p.cmd.Process.Pid}); err != nil {
		return err
	}
	return do()
}

func (f *fleet) owns(p *proc) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, t := range f.tenants {
		if t.owner == p {
			names = append(names, fmt.Sprintf("%s e%d", t.name, t.epoch))
		}
	}
	if names == nil {
		return ""
	}
	return "(owns " + strings.Join(names, ", ") + ")"
}

// obey sends a command and waits until it has taken effect.
func (f *fleet) obey(ctx context.Context, p *proc, command string) error {
	return f.obeyWithin(ctx, stepLimit, p, command)
}

func (f *fleet) obeyWithin(ctx context.Context, limit time.Duration, p *proc, command string) error {
	f.mu.Lock()
	before := p.obeyed[command]
	f.mu.Unlock()
	p.command(command)
	return f.await(ctx, limit, p.name+" obeys "+command, func() bool { return p.obeyed[command] > before || p.gone() })
}

// killAll leaves no process behind.
func (f *fleet) killAll() {
	f.mu.Lock()
	procs := slices.Clone(f.procs)
	f.mu.Unlock()
	for _, p := range procs {
		if !p.gone() {
			_ = p.signal(syscall.SIGKILL) // it may be gone by now
		}
		<-p.done
		_ = p.in.Close()
	}
}
