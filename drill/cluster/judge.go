package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats"
)

// ending is what the drill knows at the end of a run.
type ending struct {
	trails  trails
	windows map[string][]window
	verdict *Verdict
}

// figure returns that of a step.
func (e *ending) figure(s Step) *Figure {
	i := slices.IndexFunc(e.verdict.Steps, func(f Figure) bool { return f.Name == string(s) })
	return &e.verdict.Steps[i]
}

// judge reads the ledgers back through the cluster, stops the nodes, reads the audit trail and the logs, and checks it
// all.
func (d *drill) judge(ctx context.Context, v *Verdict) error {
	d.print("-- the ledgers are read back, the nodes stopped, the audit trail and the logs read")
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	ledgers, err := d.readBack(ctx)
	if err != nil {
		return err
	}
	end := &ending{verdict: v}
	if end.trails, err = d.readTrail(ctx); err != nil {
		return err
	}
	v.Checks = append(v.Checks, d.events(ledgers, end.trails))
	// All at once: of nodes with NATS inside, the last two need each other for their handoffs.
	stopped := make(chan error, len(d.nodes))
	for _, n := range d.nodes {
		go func() { stopped <- n.stop(ctx) }()
	}
	var failed []error
	for range d.nodes {
		failed = append(failed, <-stopped)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if end.windows, err = windows(append(d.nodes, d.former...)); err != nil {
		return err
	}
	trail := Figure{Name: "the audit trail: consecutive epochs, each granted after the end of the one before"}
	grants, broken := end.trails.check(2 * time.Millisecond)
	trail.Broken = broken
	trail.say("%d grants", grants)
	logs := Figure{Name: "the nodes' own logs: no tenant was served by two at once"}
	spans, broken := twoOwners(end.windows)
	logs.Broken = broken
	logs.say("%d spans of service", spans)
	v.Checks = append(v.Checks, trail, logs, d.stale(end.trails))
	var errs []error
	for _, f := range d.later {
		errs = append(errs, f(end))
	}
	d.gaps(v)
	for _, figures := range [][]Figure{v.Steps, v.Checks} {
		for i := range figures {
			var err error
			figures[i].Evidence, err = d.evidence(figures[i])
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// gaps says whether the rolling restart met its aim. It is not a verdict: these machines are noisy.
func (d *drill) gaps(v *Verdict) {
	for i := range v.Steps {
		if f := &v.Steps[i]; f.Name == string(Rolling) {
			met := "met"
			if f.Longest >= aim {
				met = "missed"
			}
			f.say("the longest gap of any tenant was %v; the aim, %v, is %s", f.Longest.Round(time.Millisecond), aim, met)
		}
	}
}

// readBack reads every ledger.
func (d *drill) readBack(ctx context.Context) ([][]messages.StoredEvent, error) {
	out := make([][]messages.StoredEvent, len(d.keys))
	for i, key := range d.keys {
		for after, more := int64(0), true; more; {
			reply := d.load.client.Do(ctx, &messages.Request{Action: messages.ActionEvents, Key: key, After: after})
			if reply.Error != nil {
				return nil, fmt.Errorf("read %s back: %w", key, reply.Error)
			}
			out[i] = append(out[i], reply.Events...)
			if more = reply.More; more {
				after = reply.Events[len(reply.Events)-1].Seq
			}
		}
	}
	return out, nil
}

func (d *drill) readTrail(ctx context.Context) (trails, error) {
	var leases engine.LeaseStore
	var err error
	if d.opts.Embedded {
		leases, err = nats.OpenLeases(ctx, nats.Config{URL: d.natsURL, Replicas: 3, SyncAlways: true})
	} else {
		leases, err = d.where.OpenLeases(ctx)
	}
	if err != nil {
		return nil, err
	}
	t, err := readTrails(ctx, leases, d.keys)
	return t, errors.Join(err, leases.Close())
}

// events compares what was acknowledged with what is there.
func (d *drill) events(ledgers [][]messages.StoredEvent, t trails) Figure {
	f := Figure{Name: "every acknowledged event is there, once, at its seq (or is the declared loss of a crash)"}
	told := make(map[int]bool)
	for _, a := range d.load.told {
		told[a.tenant] = true
	}
	there := make([]map[string]int64, len(ledgers))
	total := 0
	for i, events := range ledgers {
		there[i] = make(map[string]int64)
		for n, e := range events {
			total++
			if e.Seq != int64(n+1) {
				f.break_("tenant %d: event %d has the seq %d", i, n+1, e.Seq)
			}
			if _, twice := there[i][e.IdemKey]; twice {
				f.break_("tenant %d: %s is there twice", i, e.IdemKey)
			}
			there[i][e.IdemKey] = e.Seq
		}
	}
	acknowledged, lost := 0, 0
	for _, a := range d.load.all {
		if a.err != nil {
			continue
		}
		acknowledged++
		seq, ok := there[a.tenant][a.key]
		switch {
		case ok && a.seq != 0 && seq != a.seq:
			f.break_("tenant %d: %s was acknowledged at seq %d and is at %d", a.tenant, a.key, a.seq, seq)
		case ok:
		case d.declared(a):
			lost++
			if !told[a.tenant] {
				f.break_("tenant %d: %s is lost in a crash, and its client was not told", a.tenant, a.key)
			}
		default:
			f.break_("tenant %d: %s was acknowledged by %s at epoch %d, and is lost", a.tenant, a.key, a.owner, a.epoch)
		}
	}
	f.say("%d acknowledged, %d there; %d lost with the tails of crashed nodes (snapshots every %v), which %d answers \"history_lost\" told", acknowledged, total, lost,
		d.opts.SnapshotEvery, len(d.load.told))
	return f
}

// declared reports whether the loss of an acknowledged event is the declared one: its owner crashed so soon after that
// no snapshot had to hold it yet.
func (d *drill) declared(a asked) bool {
	for _, c := range d.crashes {
		if messages.OwnerNode(a.owner) == c.node && a.done.Before(c.at.Add(time.Second)) && c.at.Sub(a.done) < 2*d.opts.SnapshotEvery+time.Second {
			return true
		}
	}
	return false
}

// stale checks that nobody acknowledged at an epoch after a later one was granted, and that no client went back.
func (d *drill) stale(t trails) Figure {
	f := Figure{Name: "nothing was acknowledged at an epoch after the next one was granted"}
	for _, a := range d.load.all {
		if a.err != nil || a.epoch == 0 {
			continue
		}
		// It was acknowledged some time before the client heard of it.
		if at, ok := t.granted(d.keys[a.tenant], a.epoch+1); ok && a.sent.After(at) {
			f.break_("tenant %d: %s was sent after epoch %d was granted, and acknowledged by %s at epoch %d", a.tenant, a.key, a.epoch+1, a.owner, a.epoch)
		}
	}
	return f
}
