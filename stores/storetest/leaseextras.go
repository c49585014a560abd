package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// checkTrail is line B4 of the contract: every granted operation, in order, with its store time; and nothing that
// was refused.
func checkTrail(l *leases) {
	type step struct {
		op    string
		owner string
		epoch uint64
		floor uint64
	}
	start := l.now()
	first := l.acquire("a", longTTL)
	_, _ = l.Acquire(l.ctx, l.key, "b", longTTL)
	_, err := l.Renew(l.ctx, l.key, "a", first.Epoch, longTTL)
	l.ok(err, "renew")
	_, _ = l.Renew(l.ctx, l.key, "b", first.Epoch, longTTL)
	l.ok(l.MarkForgotten(l.ctx, l.key, "a", first.Epoch), "forget")
	l.ok(l.Release(l.ctx, l.key, "a", first.Epoch), "release")
	_ = l.Release(l.ctx, l.key, "a", first.Epoch)
	second := l.acquire("b", shortTTL)
	l.expire(second)
	third := l.acquire("c", longTTL)
	end := l.now()

	want := []step{
		{messages.OpAcquire, "a", 1, 0}, {messages.OpRenew, "a", 1, 0}, {messages.OpForget, "a", 1, 1},
		{messages.OpRelease, "a", 1, 1}, {messages.OpAcquire, "b", 2, 1}, {messages.OpAcquire, "c", 3, 1},
	}
	trail, err := l.History(l.ctx, l.key)
	l.ok(err, "history")
	var got []step
	for i, e := range trail {
		got = append(got, step{e.Op, e.Owner, e.Epoch, e.Floor})
		if e.At.Before(start) || e.At.After(end) {
			l.errorf("entry %d is of %v, not between %v and %v", i, e.At, start, end)
		}
		if i > 0 && (e.At.Before(trail[i-1].At) || e.Seq <= trail[i-1].Seq) {
			l.errorf("entry %d does not come after the one before it: %+v, %+v", i, trail[i-1], e)
		}
	}
	if !slices.Equal(got, want) {
		l.fatalf("the trail is %+v, want %+v", got, want)
	}
	for _, e := range trail {
		// The end of an entry is the end of the record as the operation left it.
		left := e.End.Sub(e.At)
		if e.Op == messages.OpRelease && left != 0 || e.Op == messages.OpAcquire && left != e.TTL {
			l.errorf("the entry %+v ends %v after it was granted", e, left)
		}
	}
	if last := trail[len(trail)-1]; !last.End.Equal(third.End) {
		l.errorf("the last entry ends at %v, the lease at %v", last.End, third.End)
	}
	if trail, err := l.History(l.ctx, NewKey()); err != nil || len(trail) != 0 {
		l.errorf("the trail of an unknown key is %v (%v)", trail, err)
	}
}

func isBatchRenewer(store stores.LeaseStore, _ Clock) bool {
	_, ok := store.(stores.BatchRenewer)
	return ok
}

func checkRenewMany(l *leases) {
	batch := l.LeaseStore.(stores.BatchRenewer)
	lease := l.acquire("a", longTTL)
	otherKey := NewKey()
	other, err := l.Acquire(l.ctx, otherKey, "a", longTTL)
	l.ok(err, "acquire of a second key")
	results, err := batch.RenewMany(l.ctx, []stores.Renewal{
		{Key: l.key, Owner: "a", Epoch: lease.Epoch, TTL: longTTL},
		{Key: l.key, Owner: "b", Epoch: lease.Epoch, TTL: longTTL},
		{Key: NewKey(), Owner: "a", Epoch: 1, TTL: longTTL},
		{Key: otherKey, Owner: "a", Epoch: other.Epoch, TTL: time.Millisecond},
		{Key: messages.Key{}, Owner: "a", Epoch: 1, TTL: longTTL},
		{Key: otherKey, Owner: "a", Epoch: other.Epoch, TTL: longTTL},
	})
	l.ok(err, "renew of many")
	if len(results) != 6 {
		l.fatalf("%d results for 6 renewals", len(results))
	}
	l.ok(results[0].Err, "the first renewal")
	l.code(results[1].Err, messages.CodeLost, "a batched renewal by another owner")
	l.code(results[2].Err, messages.CodeLost, "a batched renewal of an unknown key")
	l.code(results[3].Err, messages.CodeOutOfRange, "a batched renewal for 1 ms")
	l.code(results[4].Err, messages.CodeInvalidID, "a batched renewal of a malformed key")
	l.ok(results[5].Err, "the last renewal")
	l.unchanged(results[0].Lease, "a batch")
	if r := results[5].Lease; r.Key != otherKey || r.Epoch != other.Epoch || r.Owner != "a" {
		l.errorf("the last renewal of the batch answered %+v", r)
	}
	if results, err := batch.RenewMany(l.ctx, nil); err != nil || len(results) != 0 {
		l.errorf("an empty batch answered %v, %v", results, err)
	}
}

func isLister(store stores.LeaseStore, _ Clock) bool {
	_, ok := store.(stores.LeaseLister)
	return ok
}

func checkLister(l *leases) {
	lister := l.LeaseStore.(stores.LeaseLister)
	want := map[messages.Key]messages.Lease{}
	var forgotten messages.Key
	for i := range 5 {
		l.key = NewKey()
		want[l.key] = l.acquire("a", longTTL)
		if i == 2 {
			forgotten = l.key
			l.ok(l.MarkForgotten(l.ctx, l.key, "a", 1), "forget")
			lease := want[l.key]
			lease.Floor = 1
			want[l.key] = lease
		}
	}
	found := l.pages(lister.Leases, "leases")
	for key, lease := range want {
		if got, ok := found[key]; !ok {
			l.errorf("%s is not listed", key)
		} else {
			l.same(got, lease, "the listed record")
		}
	}
	found = l.pages(lister.Forgotten, "forgotten")
	for key := range want {
		if _, ok := found[key]; ok != (key == forgotten) {
			l.errorf("%s is listed as forgotten: %t", key, ok)
		}
	}
	for key, lease := range found {
		if lease.Floor == 0 {
			l.errorf("%s is listed as forgotten, with floor 0", key)
		}
	}
	_, err := lister.Leases(l.ctx, "", 0)
	l.code(err, messages.CodeInvalidArgument, "a list of at most 0")
}

// pages lists everything, two at a time.
func (l *leases) pages(list func(ctx context.Context, after string, limit int) ([]messages.Lease, error), what string) map[messages.Key]messages.Lease {
	found := map[messages.Key]messages.Lease{}
	after := ""
	for {
		page, err := list(l.ctx, after, 2)
		l.ok(err, "list of "+what)
		if len(page) > 2 {
			l.fatalf("list of %s: %d records, at most 2 were asked for", what, len(page))
		}
		for _, lease := range page {
			if lease.Key.String() <= after {
				l.fatalf("list of %s: %s comes after %s", what, lease.Key, after)
			}
			after = lease.Key.String()
			found[lease.Key] = lease
		}
		if len(page) == 0 {
			return found
		}
	}
}
