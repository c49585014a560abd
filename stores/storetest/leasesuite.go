package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// The two times to live that the suite uses. Long leases are those that must not expire while a step
// is taken, however slow the machine; short ones are waited out.
const (
	longTTL  = messages.MaxTTL
	shortTTL = 150 * time.Millisecond
)

// LeaseStore runs the conformance suite of lease stores (contract, section B) against store, each
// check as a subtest named after it. Every check uses keys of its own; nothing is cleaned up.
func LeaseStore(t *testing.T, store stores.LeaseStore, clock Clock) {
	for _, lc := range leaseChecks {
		if lc.applies == nil || lc.applies(store, clock) {
			report(t, lc.id, lc.name, func(ctx context.Context, c *check) {
				lc.run(&leases{check: c, ctx: ctx, LeaseStore: store, clock: clock, key: NewKey()})
			})
		}
	}
}

// CheckLeases runs the same suite outside a test, and returns what is wrong, in the order of the
// checks. It does not stop at the first; an empty result means that the store conforms.
func CheckLeases(ctx context.Context, store stores.LeaseStore, clock Clock) []Failure {
	var failures []Failure
	for _, lc := range leaseChecks {
		if lc.applies == nil || lc.applies(store, clock) {
			cctx, cancel := context.WithTimeout(ctx, suiteTimeout)
			failures = append(failures, guard(lc.id, lc.name, func(c *check) {
				lc.run(&leases{check: c, ctx: cctx, LeaseStore: store, clock: clock, key: NewKey()})
			})...)
			cancel()
		}
	}
	return failures
}

type leaseCheck struct {
	id, name string
	run      func(*leases)
	applies  func(stores.LeaseStore, Clock) bool
}

// leases is what one check works with: the store, and a key that nobody else uses.
type leases struct {
	*check
	stores.LeaseStore
	ctx   context.Context
	clock Clock
	key   messages.Key
}

// acquire takes the lease of the check's key, which must succeed.
func (l *leases) acquire(owner string, ttl time.Duration) messages.Lease {
	lease, err := l.Acquire(l.ctx, l.key, owner, ttl)
	l.ok(err, "acquire by "+owner)
	return lease
}

// now returns the time of the store's own clock: that of the grant of a fresh lease.
func (l *leases) now() time.Time {
	lease, err := l.Acquire(l.ctx, NewKey(), "suite", messages.MinTTL)
	l.ok(err, "acquire of a fresh key")
	return lease.End.Add(-messages.MinTTL)
}

// expire waits until a lease has ended, by the store's own clock, without touching it.
func (l *leases) expire(lease messages.Lease) {
	for range 1000 {
		left := lease.End.Sub(l.now())
		if left <= 0 {
			return
		}
		l.ok(l.clock.Pass(l.ctx, left), "waiting for the end of a lease")
	}
	l.fatalf("the store's clock does not reach %v", lease.End)
}

// same notes a record that is not the one it should be.
func (l *leases) same(got, want messages.Lease, step string) {
	if got.Key != want.Key || got.Owner != want.Owner || got.Epoch != want.Epoch || got.TTL != want.TTL ||
		got.Floor != want.Floor || got.Lineage != want.Lineage || !got.End.Equal(want.End) {
		l.errorf("%s: got %+v, want %+v", step, got, want)
	}
}

// unchanged notes a record that differs from what it was.
func (l *leases) unchanged(want messages.Lease, step string) {
	got, ok, err := l.Read(l.ctx, l.key)
	l.ok(err, "read after "+step)
	if !ok {
		l.fatalf("read after %s: the record is gone", step)
	}
	l.same(got, want, "the record after "+step)
}

// lost notes operations of a supposed holder that are not refused as lost.
func (l *leases) lost(owner string, epoch uint64, who string) {
	_, err := l.Renew(l.ctx, l.key, owner, epoch, longTTL)
	l.code(err, messages.CodeLost, "renew by "+who)
	l.code(l.MarkForgotten(l.ctx, l.key, owner, epoch), messages.CodeLost, "forget by "+who)
	l.code(l.Release(l.ctx, l.key, owner, epoch), messages.CodeLost, "release by "+who)
}
