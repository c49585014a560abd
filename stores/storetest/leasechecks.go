package storetest

import (
	"errors"
	"math"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// leaseChecks are the numbered checks of section B of the contract ("B.6"), its lines B2 and B4, and
// what the optional interfaces promise.
var leaseChecks = []leaseCheck{
	{id: "B.1", name: "first_acquire", run: checkFirstAcquire},
	{id: "B.2", name: "refused_while_held", run: checkHeld},
	{id: "B.3", name: "refused_to_its_holder", run: checkHeldByHolder},
	{id: "B.4", name: "renew", run: checkRenew},
	{id: "B.5", name: "renew_by_others", run: checkRenewByOthers},
	{id: "B.6", name: "takeover", run: checkTakeover},
	{id: "B.7", name: "expired_is_over", run: checkExpired},
	{id: "B.8", name: "release", run: checkRelease},
	{id: "B.9", name: "stale_release", run: checkStaleRelease},
	{id: "B.10", name: "six_rounds", run: checkSixRounds},
	{id: "B.11", name: "forget", run: checkForget},
	{id: "B.12", name: "forget_expired", run: checkForgetExpired},
	{id: "B.13", name: "out_of_range", run: checkOutOfRange},
	{id: "B4", name: "audit_trail", run: checkTrail},
	{id: "B2", name: "ends_exactly_at_its_end", run: checkExactEnd, applies: isManual},
	{id: "B.lineage", name: "lineage", run: checkLineage},
	{id: "B.reseed", name: "reseed", run: checkReseed, applies: isReseeder},
	{id: "B.batch", name: "renew_many", run: checkRenewMany, applies: isBatchRenewer},
	{id: "B.list", name: "lister", run: checkLister, applies: isLister},
	{id: "K1", name: "deployment", run: checkDeployment, applies: isDeploymentKeeper},
}

func checkFirstAcquire(l *leases) {
	if lease, ok, err := l.Read(l.ctx, l.key); err != nil || ok {
		l.errorf("read of an unknown key: got %+v, %t, %v; want it absent", lease, ok, err)
	}
	before := l.now()
	lease := l.acquire("a", longTTL)
	if lease.Key != l.key || lease.Owner != "a" || lease.Epoch != 1 || lease.TTL != longTTL || lease.Floor != 0 {
		l.errorf("granted %+v; want the key, owner a, epoch 1, ttl %v, floor 0", lease, longTTL)
	}
	if end := lease.End.Sub(before); end < longTTL {
		l.errorf("the end is %v after a time of the store before the grant; want at least the ttl", end)
	}
	l.unchanged(lease, "the grant")
}

func checkHeld(l *leases) {
	lease := l.acquire("a", longTTL)
	_, err := l.Acquire(l.ctx, l.key, "b", longTTL)
	l.held(err, lease, "acquire by another owner")
	l.unchanged(lease, "a refused acquire")
}

func checkHeldByHolder(l *leases) {
	lease := l.acquire("a", longTTL)
	_, err := l.Acquire(l.ctx, l.key, "a", longTTL)
	l.held(err, lease, "acquire by the holder")
	l.unchanged(lease, "a refused acquire")
}

// held notes an answer that does not say who holds the lease, and for how long.
func (l *leases) held(err error, lease messages.Lease, step string) {
	l.code(err, messages.CodeHeld, step)
	var e *messages.Error
	if !errors.As(err, &e) {
		return
	}
	if e.Owner != lease.Owner || e.Epoch != lease.Epoch || e.Key != lease.Key.String() {
		l.errorf("%s: the error names %s, %s, epoch %d; want %s, %s, epoch %d", step, e.Key, e.Owner, e.Epoch, lease.Key, lease.Owner, lease.Epoch)
	}
	if e.Lease == nil {
		l.errorf("%s: the error does not carry the record", step)
	} else {
		l.same(*e.Lease, lease, step+": the record in the error")
	}
	if e.RetryAfter <= 0 || e.RetryAfter > lease.TTL {
		l.errorf("%s: RetryAfter is %v; want what is left of %v", step, e.RetryAfter, lease.TTL)
	}
}

func checkRenew(l *leases) {
	first := l.acquire("a", longTTL)
	l.expire(messages.Lease{End: l.now().Add(2 * time.Millisecond)}) // a little time passes
	second, err := l.Renew(l.ctx, l.key, "a", first.Epoch, longTTL)
	l.ok(err, "renew")
	if second.Epoch != first.Epoch || second.Owner != "a" || second.Key != l.key || second.TTL != longTTL {
		l.errorf("renewed to %+v; want epoch, owner and key of %+v", second, first)
	}
	if !second.End.After(first.End) {
		l.errorf("the end did not move forward: from %v to %v", first.End, second.End)
	}
	l.unchanged(second, "renew")
}

func checkRenewByOthers(l *leases) {
	lease := l.acquire("a", longTTL)
	for _, epoch := range []uint64{0, lease.Epoch + 1, math.MaxUint64} {
		_, err := l.Renew(l.ctx, l.key, "a", epoch, longTTL)
		l.code(err, messages.CodeLost, "renew for another epoch")
	}
	_, err := l.Renew(l.ctx, l.key, "b", lease.Epoch, longTTL)
	l.code(err, messages.CodeLost, "renew by another owner")
	var e *messages.Error
	if errors.As(err, &e) && (e.Owner != "a" || e.Epoch != lease.Epoch || e.Key != l.key.String()) {
		l.errorf("renew by another owner: the error names %s, %s, epoch %d; want the current record", e.Key, e.Owner, e.Epoch)
	}
	_, err = l.Renew(l.ctx, NewKey(), "a", 1, longTTL)
	l.code(err, messages.CodeLost, "renew of an unknown key")
	l.unchanged(lease, "refused renewals")
	_, err = l.Renew(l.ctx, l.key, "a", lease.Epoch, longTTL)
	l.ok(err, "renew by the true holder after that")
}

func checkTakeover(l *leases) {
	old := l.acquire("a", shortTTL)
	l.expire(old)
	lease := l.acquire("b", longTTL)
	if lease.Epoch != old.Epoch+1 || lease.Owner != "b" {
		l.errorf("took the lease over as %s at epoch %d; want b at %d", lease.Owner, lease.Epoch, old.Epoch+1)
	}
	l.lost("a", old.Epoch, "the old holder")
	l.unchanged(lease, "what the old holder tried")
	_, err := l.Renew(l.ctx, l.key, "b", lease.Epoch, longTTL)
	l.ok(err, "renew by the new holder")
}

func checkExpired(l *leases) {
	old := l.acquire("a", shortTTL)
	l.expire(old)
	_, err := l.Renew(l.ctx, l.key, "a", old.Epoch, longTTL)
	l.code(err, messages.CodeLost, "renew of an expired lease")
	l.unchanged(old, "renew of an expired lease")
	if lease := l.acquire("a", longTTL); lease.Epoch != old.Epoch+1 {
		l.errorf("acquired anew at epoch %d, want %d", lease.Epoch, old.Epoch+1)
	}
}

func checkRelease(l *leases) {
	old := l.acquire("a", longTTL)
	l.ok(l.Release(l.ctx, l.key, "a", old.Epoch), "release")
	record, ok, err := l.Read(l.ctx, l.key)
	l.ok(err, "read after release")
	if !ok || record.Epoch != old.Epoch || record.Owner != "a" {
		l.errorf("after the release the record is %+v (there: %t); want owner and epoch kept", record, ok)
	}
	if !record.End.Before(old.End) || record.End.After(l.now()) {
		l.errorf("after the release the lease ends at %v; want at once", record.End)
	}
	l.lost("a", old.Epoch, "the owner after its release")
	if lease := l.acquire("b", longTTL); lease.Epoch != old.Epoch+1 {
		l.errorf("the next owner got epoch %d, want %d", lease.Epoch, old.Epoch+1)
	}
}

func checkStaleRelease(l *leases) {
	old := l.acquire("a", longTTL)
	l.ok(l.Release(l.ctx, l.key, "a", old.Epoch), "release")
	lease := l.acquire("b", longTTL)
	l.code(l.Release(l.ctx, l.key, "a", old.Epoch), messages.CodeLost, "stale release")
	l.code(l.Release(l.ctx, l.key, "a", lease.Epoch), messages.CodeLost, "release by another owner")
	l.code(l.Release(l.ctx, l.key, "b", old.Epoch), messages.CodeLost, "release for an old epoch")
	l.code(l.Release(l.ctx, NewKey(), "a", 1), messages.CodeLost, "release of an unknown key")
	l.unchanged(lease, "stale releases")
}

func checkSixRounds(l *leases) {
	for round := uint64(1); round <= 6; round++ {
		owner := string(rune('a' + round%3))
		lease := l.acquire(owner, shortTTL)
		if lease.Epoch != round {
			l.errorf("round %d was granted epoch %d", round, lease.Epoch)
		}
		if round%2 == 0 {
			l.expire(lease)
		} else if err := l.Release(l.ctx, l.key, owner, lease.Epoch); err != nil {
			// A slow machine may have let it expire: then it is over as well.
			l.code(err, messages.CodeLost, "release")
			l.expire(lease)
		}
	}
}

func checkForget(l *leases) {
	lease := l.acquire("a", longTTL)
	l.code(l.MarkForgotten(l.ctx, l.key, "b", lease.Epoch), messages.CodeLost, "forget by another owner")
	l.code(l.MarkForgotten(l.ctx, l.key, "a", lease.Epoch+1), messages.CodeLost, "forget at another epoch")
	l.code(l.MarkForgotten(l.ctx, NewKey(), "a", 1), messages.CodeLost, "forget of an unknown key")
	l.unchanged(lease, "refused forgets")
	l.ok(l.MarkForgotten(l.ctx, l.key, "a", lease.Epoch), "forget by the holder")
	lease.Floor = lease.Epoch
	l.unchanged(lease, "forget")
	l.ok(l.MarkForgotten(l.ctx, l.key, "a", lease.Epoch), "forget again")
	l.ok(l.Release(l.ctx, l.key, "a", lease.Epoch), "release")
	next := l.acquire("b", longTTL)
	if next.Epoch != lease.Epoch+1 || next.Floor != lease.Epoch {
		l.errorf("after forget, acquired epoch %d with floor %d; want 2 and 1", next.Epoch, next.Floor)
	}
	renewed, err := l.Renew(l.ctx, l.key, "b", next.Epoch, longTTL)
	l.ok(err, "renew")
	if renewed.Floor != lease.Epoch {
		l.errorf("after a renewal the floor is %d, want %d", renewed.Floor, lease.Epoch)
	}
	l.unchanged(renewed, "the next acquisition and renewal")
}

func checkForgetExpired(l *leases) {
	lease := l.acquire("a", shortTTL)
	l.expire(lease)
	l.code(l.MarkForgotten(l.ctx, l.key, "a", lease.Epoch), messages.CodeLost, "forget with an expired lease")
	l.unchanged(lease, "a refused forget")
}

func checkOutOfRange(l *leases) {
	for _, ttl := range []time.Duration{0, -time.Second, time.Millisecond, messages.MinTTL - time.Millisecond, messages.MinTTL + time.Microsecond,
		time.Second + time.Nanosecond, messages.MaxTTL + time.Millisecond, 24 * time.Hour, math.MaxInt64, math.MinInt64} {
		_, err := l.Acquire(l.ctx, l.key, "a", ttl)
		l.code(err, messages.CodeOutOfRange, "acquire with a ttl of "+ttl.String())
	}
	for _, owner := range []string{"", " ", "a\x00b", "a\n", "\xff", string(make([]byte, messages.MaxOwnerBytes+1))} {
		_, err := l.Acquire(l.ctx, l.key, owner, longTTL)
		l.code(err, messages.CodeOutOfRange, "acquire with a malformed owner")
	}
	if lease, ok, err := l.Read(l.ctx, l.key); err != nil || ok {
		l.errorf("a refused acquire left %+v (there: %t, %v)", lease, ok, err)
	}
	if trail, err := l.History(l.ctx, l.key); err != nil || len(trail) != 0 {
		l.errorf("a refused acquire left a trail %v (%v)", trail, err)
	}
	for _, bad := range []messages.Key{{}, {Org: "../x", Tenant: l.key.Tenant}, {Org: "acme", Tenant: "t-1"}} {
		_, err := l.Acquire(l.ctx, bad, "a", longTTL)
		l.code(err, messages.CodeInvalidID, "acquire of a malformed key")
		_, _, err = l.Read(l.ctx, bad)
		l.code(err, messages.CodeInvalidID, "read of a malformed key")
	}
	lease := l.acquire("a", messages.MinTTL)
	l.expire(lease)
	lease = l.acquire("a", messages.MaxTTL)
	_, err := l.Renew(l.ctx, l.key, "a", lease.Epoch, time.Millisecond)
	l.code(err, messages.CodeOutOfRange, "renew with a ttl of 1 ms")
	l.unchanged(lease, "a refused renewal")
}

func isManual(_ stores.LeaseStore, clock Clock) bool {
	_, ok := clock.(*ManualClock)
	return ok
}

func checkExactEnd(l *leases) {
	clock := l.clock.(*ManualClock)
	lease := l.acquire("a", shortTTL)
	clock.Advance(lease.End.Sub(l.now()) - time.Millisecond)
	_, err := l.Acquire(l.ctx, l.key, "b", longTTL)
	l.held(err, lease, "acquire 1 ms before the end")
	var e *messages.Error
	if errors.As(err, &e) && e.RetryAfter != time.Millisecond {
		l.errorf("1 ms before the end RetryAfter is %v", e.RetryAfter)
	}
	clock.Advance(time.Millisecond)
	if next := l.acquire("b", longTTL); next.Epoch != lease.Epoch+1 {
		l.errorf("at the end it was granted at epoch %d, want %d", next.Epoch, lease.Epoch+1)
	}
}
