package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/drill/verify"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// The times and sizes of the faults on connections.
const (
	// cutOff is how long a replica is cut off at least: past every lease that it held.
	cutOff = replica.TTL + 300*time.Millisecond
	// stormTakes is how long the faults last that hit all replicas.
	stormTakes = 2500 * time.Millisecond

	slowMin, slowMax = 300 * time.Millisecond, 800 * time.Millisecond
	// lostShare is the share of answers that are lost: most operations of two or three requests get through in the end.
	lostShare = 0.2
	// resetWithin holds the opening of a connection, many renewals, and images.
	resetWithin = 32 << 10
)

// faults returns what a step does to a wire.
func (s Step) faults(seed uint64) servers.Faults {
	f := servers.Faults{Seed: seed}
	switch s {
	case Cut:
		f.Refuse = true
	case HalfClose:
		f.Silence = true
	case Slow:
		f.DelayMin, f.DelayMax = slowMin, slowMax
	case LostAnswers:
		f.Lose = lostShare
	case Reset:
		f.ResetWithin = resetWithin
	}
	return f
}

// wire lays a wire from every node to the servers; where says where those are.
func (f *fleet) wire(where engine.Stores) error {
	f.places = make([]engine.Stores, f.opts.Replicas)
	for i := range f.places {
		f.places[i] = where
		if len(f.servers) == 0 {
			continue
		}
		at, w, err := f.servers.Connect(where)
		if err != nil {
			return err
		}
		f.places[i], f.wires = at, append(f.wires, w)
	}
	return nil
}

func (f *fleet) unwire() error {
	var errs []error
	for _, w := range f.wires {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}

// isolate takes the servers away from one replica until others serve what it did, and gives them back. If the leases
// are no server's, it goes on serving without the durable copies.
func (f *fleet) isolate(ctx context.Context, step Step, p *proc) error {
	since := record.Now()
	return f.disturb(ctx, step, p.name, f.wires[p.index:p.index+1], func() error {
		begun := time.Now()
		what := "other replicas acknowledge writes of every tenant, with " + p.name + " cut off"
		if !f.opts.Leases.HasServer() {
			what = "every tenant takes writes, with " + p.name + " cut off from the durable copies"
		}
		err := f.await(ctx, f.limit, what, func() bool {
			for _, t := range f.tenants {
				if t.owner == nil || t.asked < since || t.acks == 0 || f.opts.Leases.HasServer() && t.owner == p {
					return false
				}
			}
			return true
		})
		if err != nil {
			return err
		}
		f.print("   %s after %d ms", what, time.Since(begun).Milliseconds())
		return sleep(ctx, cutOff-time.Since(begun))
	})
}

// storm disturbs the connections of all replicas for a while.
func (f *fleet) storm(ctx context.Context, step Step) error {
	return f.disturb(ctx, step, "", f.wires, func() error { return sleep(ctx, stormTakes) })
}

// disturb puts the faults of a step on wires while during takes, and lifts them. Then every tenant has to be served
// and copied again, and every replica has to reach its stores. Target is the replica whose wire it is; "": all of them.
func (f *fleet) disturb(ctx context.Context, step Step, target string, wires []*engine.Wire, during func() error) error {
	f.print(">> %-12s %s", strings.ToUpper(string(step)), target)
	if err := f.log.Write(record.Line{Kind: record.Action, Op: verify.OpWire, Text: string(step), Target: target}); err != nil {
		return err
	}
	before := hits(wires)
	for i, w := range wires {
		w.Set(step.faults(f.opts.Seed<<16 + uint64(i)<<8))
		if step == Cut {
			w.Cut()
		}
	}
	err := during()
	for _, w := range wires {
		w.Set(servers.Faults{})
	}
	hit := hits(wires).Minus(before)
	f.print("   %s hit %d connections, %d answers, %d bytes", step, hit.Connections, hit.Answers, hit.Bytes)
	err = errors.Join(err, f.log.Write(record.Line{Kind: record.Action, Op: verify.OpWireEnd, Text: string(step), Target: target,
		Hits: &record.Hits{Connections: hit.Connections, Answers: hit.Answers, Bytes: hit.Bytes}}))
	if err != nil {
		return err
	}
	if hit == (servers.Hits{}) {
		return fmt.Errorf("the step %q has hit nothing: it proves nothing", step)
	}
	if err := f.survived(); err != nil {
		return err
	}
	begun := time.Now()
	if err := f.recovered(ctx, "after "+string(step)); err != nil {
		return err
	}
	for _, p := range f.others(nil) {
		if err := f.obeyWithin(ctx, f.limit, p, replica.Reach); err != nil {
			return err
		}
	}
	f.print("   every tenant is served and copied, and every replica reaches its stores, after %d ms", time.Since(begun).Milliseconds())
	return nil
}

// survived returns an error if a replica has ended because of its connections: they must never be the end of one.
func (f *fleet) survived() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.nodes {
		if p.gone() {
			return fmt.Errorf("%s has ended by itself; see %s", p.name, replica.LogPath(f.opts.Dir, p.name))
		}
	}
	return nil
}

func hits(wires []*engine.Wire) (sum servers.Hits) {
	for _, w := range wires {
		sum = sum.Plus(w.Hits())
	}
	return sum
}
