package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/messages"
)

// Limits of what the drill waits for.
const (
	takeoverLimit = 8 * time.Second // until another node serves
	// With a part broken on purpose it may never happen, and what is waited for is only the provocation.
	brokenLimit = 4 * time.Second
	startLimit  = 15 * time.Second // until a process runs
	exitLimit   = 15 * time.Second // until a handoff has ended
	stepLimit   = 5 * time.Second  // everything else
)

// wakesWithout is how long a process that was stopped finds its lease store out of reach afterwards: long
// enough for its writers to try.
const wakesWithout = 400 * time.Millisecond

// step does one step of the schedule.
func (f *fleet) step(ctx context.Context, p Planned) error {
	if p.Step == Watch {
		return sleep(ctx, p.After+Watch.Cost())
	}
	if err := f.settled(ctx, p.Tenant); err != nil {
		return err
	}
	if err := sleep(ctx, p.After); err != nil {
		return err
	}
	if p.Step.needsServer() {
		if err := f.running(ctx); err != nil { // one that has just been started needs its stores for that
			return err
		}
	}
	if p.Step.hitsServer() {
		return f.hitServer(ctx, p)
	}
	owner, err := f.owner(ctx, p.Tenant)
	if err != nil {
		return err
	}
	f.print("-- %s of the owner of t%d", p.Step, p.Tenant+1)
	switch p.Step {
	case Cut, HalfClose:
		return f.isolate(ctx, p.Step, owner)
	case Slow, LostAnswers, Reset:
		return f.storm(ctx, p.Step)
	case Kill:
		return f.kill(ctx, owner)
	case KillUpload:
		return f.killUpload(ctx, owner, p.Tenant)
	case Handoff:
		return f.handoff(ctx, owner)
	case Freeze:
		return f.freeze(ctx, owner, p.Tenant)
	case Outage:
		return f.outage(ctx, owner, p.Tenant)
	case LateUpload:
		return f.lateUpload(ctx, owner, p.Tenant)
	}
	return fmt.Errorf("unknown step %q", p.Step)
}

// settled waits until every tenant is served, and the one at index was written to and has a snapshot.
func (f *fleet) settled(ctx context.Context, index int) error {
	return f.await(ctx, f.limit, "every tenant is served", func() bool {
		for i, t := range f.tenants {
			if t.owner == nil || i == index && (t.counted == 0 || t.acks == 0) {
				return false
			}
		}
		return true
	})
}

// owner returns the process that serves a tenant.
func (f *fleet) owner(ctx context.Context, index int) (p *proc, err error) {
	err = f.await(ctx, f.limit, "somebody serves the tenant", func() bool {
		p = f.tenants[index].owner
		return p != nil && !p.gone()
	})
	return p, err
}

// takenOver waits until a later epoch of a tenant is served by another process.
func (f *fleet) takenOver(ctx context.Context, from *proc, index int, epoch uint64) (by *proc, err error) {
	err = f.await(ctx, f.limit, fmt.Sprintf("another node takes t%d over", index+1), func() bool {
		t := f.tenants[index]
		by = t.owner
		return by != nil && by != from && t.epoch > epoch
	})
	return by, err
}

func (f *fleet) epochOf(index int) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tenants[index].epoch
}

// shoot kills a process and starts its node again.
func (f *fleet) shoot(ctx context.Context, p *proc) error {
	if err := f.act("kill", p, func() error { return p.signal(syscall.SIGKILL) }); err != nil {
		return err
	}
	f.forget(p)
	return f.replace(ctx, p)
}

// forget notes that a process serves nothing any more.
func (f *fleet) forget(p *proc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.tenants {
		f.left(p, &f.tenants[i])
	}
}

// replace waits for the end of a process and starts its node again.
func (f *fleet) replace(ctx context.Context, p *proc) error {
	select {
	case <-p.done:
	case <-time.After(exitLimit):
		return fmt.Errorf("%s ends: %w", p.name, errTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
	return f.launch(p.index)
}

func (f *fleet) kill(ctx context.Context, p *proc) error { return f.shoot(ctx, p) }

func (f *fleet) killUpload(ctx context.Context, p *proc, index int) error {
	if err := f.holdUpload(ctx, p, index); err != nil {
		return err
	}
	return f.shoot(ctx, p)
}

// holdUpload waits until an image of a tenant is on its way, and keeps it there.
func (f *fleet) holdUpload(ctx context.Context, p *proc, index int) error {
	if err := f.obey(ctx, p, replica.HoldImages); err != nil {
		return err
	}
	prefix := f.keys[index].Prefix()
	return f.await(ctx, stepLimit, "an image is on its way", func() bool {
		for name := range p.uploads {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return p.gone()
	})
}

func (f *fleet) handoff(ctx context.Context, p *proc) error {
	if err := f.act("term", p, func() error { return p.signal(syscall.SIGTERM) }); err != nil {
		return err
	}
	return f.replace(ctx, p)
}

// quiet is what a process is told before it is stopped. Neither the confirmation of a snapshot nor a
// transaction in the lease file may be cut in half: the first it could only report after it wakes up,
// as if it had come about then, and the second would lock everybody out.
var quiet = []string{replica.HoldManifests, replica.HoldLeases}

func (f *fleet) freeze(ctx context.Context, p *proc, index int) error {
	for _, command := range quiet {
		if err := f.obey(ctx, p, command); err != nil {
			return err
		}
	}
	epoch := f.epochOf(index)
	if err := f.act("stop", p, func() error { return p.signal(syscall.SIGSTOP) }); err != nil {
		return err
	}
	f.forget(p)
	_, missed := f.takenOver(ctx, p, index, epoch)
	if err := f.wake(ctx, p); err != nil {
		return err
	}
	if err := sleep(ctx, wakesWithout); err != nil {
		return err
	}
	return errors.Join(missed, f.obey(ctx, p, replica.ReleaseManifests), f.obey(ctx, p, replica.ReleaseLeases))
}

func (f *fleet) wake(ctx context.Context, p *proc) error {
	if err := sleep(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	return f.act("cont", p, func() error { return p.signal(syscall.SIGCONT) })
}

func (f *fleet) outage(ctx context.Context, p *proc, index int) error {
	if err := f.obey(ctx, p, replica.SlowWrites); err != nil {
		return err
	}
	// From the answer of a renewal on, nothing gets through; then the window ends at a known time.
	f.mu.Lock()
	before := p.renewals[index]
	f.mu.Unlock()
	var sent int64
	err := f.await(ctx, stepLimit, "a renewal", func() bool {
		sent = p.renewed[index]
		return p.renewals[index] > before || p.gone()
	})
	if err != nil {
		return err
	}
	f.print(">> OUTAGE   %s  cannot reach the lease store", p.name)
	if err := f.obey(ctx, p, replica.HoldLeases); err != nil {
		return err
	}
	f.mu.Lock()
	sent = max(sent, p.renewed[index]) // another one may have been faster than the command
	f.mu.Unlock()
	window := replica.TTL - replica.Margin
	if err := sleep(ctx, window+replica.Margin/3-record.Since(sent)); err != nil {
		return err
	}
	return errors.Join(f.obey(ctx, p, replica.ReleaseLeases), f.obey(ctx, p, replica.NormalWrites))
}

func (f *fleet) lateUpload(ctx context.Context, p *proc, index int) error {
	if err := f.holdUpload(ctx, p, index); err != nil {
		return err
	}
	for _, command := range quiet {
		if err := f.obey(ctx, p, command); err != nil {
			return err
		}
	}
	// Nobody publishes a snapshot before the successor is dead.
	for _, other := range f.others(p) {
		if err := f.obey(ctx, other, replica.HoldImages); err != nil {
			return err
		}
	}
	epoch := f.epochOf(index)
	if err := f.act("stop", p, func() error { return p.signal(syscall.SIGSTOP) }); err != nil {
		return err
	}
	f.forget(p)
	successor, err := f.takenOver(ctx, p, index, epoch)
	if err == nil {
		err = f.shoot(ctx, successor)
	}
	if waking := f.wake(ctx, p); waking != nil {
		return errors.Join(err, waking)
	}
	// Its image lands, and it goes on to the manifest, before it can learn from the lease store.
	p.command(replica.ReleaseImages)
	p.command(replica.ReleaseManifests)
	if waiting := sleep(ctx, wakesWithout); waiting != nil {
		return errors.Join(err, waiting)
	}
	p.command(replica.ReleaseLeases)
	for _, other := range f.others(p) {
		other.command(replica.ReleaseImages)
	}
	if err == nil {
		// The third owner is the one that restores, with both of them having left their traces.
		_, err = f.takenOver(ctx, successor, index, epoch+1)
	}
	return err
}

// others returns the newest process of every other node.
func (f *fleet) others(p *proc) []*proc {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*proc
	for _, other := range f.nodes {
		if other != p && !other.gone() {
			out = append(out, other)
		}
	}
	return out
}

// finish hands every tenant off and waits until every process has ended.
func (f *fleet) finish(ctx context.Context) error {
	f.print("-- the end: every node hands off")
	var errs []error
	everybody := f.others(nil)
	for _, p := range everybody {
		errs = append(errs, f.obey(ctx, p, replica.StandBack))
	}
	for _, p := range everybody {
		errs = append(errs, f.act("term", p, func() error {
			if err := p.signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
				return err
			}
			return nil
		}))
	}
	late := time.After(exitLimit)
	for _, p := range everybody {
		select {
		case <-p.done:
		case <-late:
			return errors.Join(append(errs, fmt.Errorf("%s ends: %w", p.name, errTimeout))...)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// remember takes what the steps need to know of a renewal.
func (p *proc) remember(index int, l record.Line) {
	if l.Op == messages.OpRenew && l.Code == "" {
		p.renewed[index] = l.Since
		p.renewals[index]++
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
