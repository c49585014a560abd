package storetest

import (
	"errors"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// checkLineage is what contract line K2 needs of a store: a mark that only the holder can set, that later grants keep, and that a
// forget ends.
func checkLineage(l *leases) {
	lease := l.acquire("a", longTTL)
	if lease.HasLineage() {
		l.errorf("a first acquire has lineage %d", lease.Lineage)
	}
	l.code(l.MarkLineage(l.ctx, l.key, "b", lease.Epoch), messages.CodeLost, "mark by another owner")
	l.code(l.MarkLineage(l.ctx, l.key, "a", lease.Epoch+1), messages.CodeLost, "mark at another epoch")
	l.code(l.MarkLineage(l.ctx, NewKey(), "a", 1), messages.CodeLost, "mark of an unknown key")
	l.unchanged(lease, "refused marks")
	l.ok(l.MarkLineage(l.ctx, l.key, "a", lease.Epoch), "mark by the holder")
	lease.Lineage = lease.Epoch
	l.unchanged(lease, "a mark")
	renewed, err := l.Renew(l.ctx, l.key, "a", lease.Epoch, longTTL)
	l.ok(err, "renew")
	if renewed.Lineage != lease.Lineage {
		l.errorf("after a renewal the lineage is %d, want %d", renewed.Lineage, lease.Lineage)
	}
	l.ok(l.Release(l.ctx, l.key, "a", lease.Epoch), "release")
	l.code(l.MarkLineage(l.ctx, l.key, "a", lease.Epoch), messages.CodeLost, "mark after the release")

	next := l.acquire("b", longTTL)
	if next.Lineage != lease.Epoch || !next.HasLineage() {
		l.errorf("the next grant has lineage %d, want %d", next.Lineage, lease.Epoch)
	}
	l.ok(l.MarkLineage(l.ctx, l.key, "b", next.Epoch), "mark again")
	l.unchanged(next, "a mark of what is marked")

	// A forget ends it, whatever lands late; and the next lineage is marked anew.
	l.ok(l.MarkForgotten(l.ctx, l.key, "b", next.Epoch), "forget")
	l.ok(l.MarkLineage(l.ctx, l.key, "b", next.Epoch), "a mark that lands after the forget")
	l.ok(l.Release(l.ctx, l.key, "b", next.Epoch), "release")
	third := l.acquire("c", shortTTL)
	if third.HasLineage() {
		l.errorf("after a forget the lineage is %d, the floor %d", third.Lineage, third.Floor)
	}
	l.expire(third)
	l.code(l.MarkLineage(l.ctx, l.key, "c", third.Epoch), messages.CodeLost, "mark with an expired lease")
	fourth := l.acquire("d", longTTL)
	l.ok(l.MarkLineage(l.ctx, l.key, "d", fourth.Epoch), "mark after a forget")
	fourth.Lineage = fourth.Epoch
	l.unchanged(fourth, "a mark after a forget")
}

func isReseeder(store stores.LeaseStore, _ Clock) bool {
	_, ok := store.(stores.Reseeder)
	return ok
}

// checkReseed is what contract line K3 needs: a record that was lost comes back above all that was used.
func checkReseed(l *leases) {
	store := l.LeaseStore.(stores.Reseeder)
	seed := stores.Seed{Key: l.key, Epoch: 7, Floor: 3, Lineage: 5}
	record, err := store.Reseed(l.ctx, seed, false)
	if errors.Is(err, messages.ErrUnauthorized) {
		return // it is for the owner of the tables, and the suite runs as a node
	}
	l.ok(err, "reseed of an unknown key")
	if record.Epoch <= seed.Epoch || record.Floor != 3 || record.Lineage != 5 || record.Owner != stores.ReseedOwner || record.End.After(l.now()) {
		l.errorf("reseeded %+v to %+v", seed, record)
	}
	l.unchanged(record, "reseed")
	again, err := store.Reseed(l.ctx, seed, false)
	l.ok(err, "reseed again")
	l.same(again, record, "a reseed of a record that lacks nothing")

	lease := l.acquire("a", longTTL)
	if lease.Epoch != record.Epoch+1 || lease.Floor != 3 || lease.Lineage != 5 {
		l.errorf("after a reseed of %+v, granted %+v", record, lease)
	}
	// A live lease is left alone, whether anything is missing or not.
	for _, s := range []stores.Seed{seed, {Key: l.key, Epoch: 20}} {
		_, err = store.Reseed(l.ctx, s, false)
		l.held(err, lease, "reseed of a live lease")
	}
	l.unchanged(lease, "a refused reseed")
	record, err = store.Reseed(l.ctx, stores.Seed{Key: l.key, Epoch: 20, Floor: 20}, true)
	l.ok(err, "reseed of a live lease, as ordered")
	if record.Epoch <= 20 || record.Floor != record.Epoch || record.HasLineage() {
		l.errorf("reseeded to %+v", record)
	}
	l.lost("a", lease.Epoch, "the holder after the reseed")
	if next := l.acquire("b", longTTL); next.Epoch != record.Epoch+1 || next.Floor != record.Epoch {
		l.errorf("after a reseed of %+v, granted %+v", record, next)
	}
	trail, err := l.History(l.ctx, l.key)
	l.ok(err, "history")
	if len(trail) == 0 || trail[0].Op != messages.OpReseed {
		l.errorf("the trail %+v does not begin with the reseed", trail)
	}
	if _, err := store.Reseed(l.ctx, stores.Seed{Key: NewKey(), Epoch: 1, Floor: 2}, false); !errors.Is(err, messages.ErrOutOfRange) {
		l.errorf("a floor above the epoch: want %s, got %v", messages.CodeOutOfRange, err)
	}
}
