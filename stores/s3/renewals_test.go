package s3_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest"
)

const span = 10 * time.Second

// node is one process of a test: its clock stands still until it is told to move, and everything goes through its proxy.
type node struct {
	*s3.Leases
	t     *testing.T
	name  string
	clock *storetest.ManualClock
	proxy *s3test.Proxy
}

func nodeOn(t *testing.T, server *s3test.Server, name string) node {
	t.Helper()
	proxy := s3test.NewProxy(t, server)
	clock := storetest.NewManualClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	cfg := config(proxy.Endpoint)
	cfg.Now, cfg.Attempts = clock.Now, 2
	return node{openLeases(t, cfg, s3.LeaseConfig{ClockSkew: observedOnly, AcquireWait: -1}), t, name, clock, proxy}
}

func (n node) acquire(key messages.Key) messages.Lease {
	n.t.Helper()
	lease, err := n.Acquire(n.t.Context(), key, n.name, span)
	require.NoError(n.t, err)
	return lease
}

func (n node) renew(key messages.Key, epoch uint64) messages.Lease {
	n.t.Helper()
	lease, err := n.Renew(n.t.Context(), key, n.name, epoch, span)
	require.NoError(n.t, err)
	return lease
}

// renewAll renews leases of epoch 1 at once.
func (n node) renewAll(many []messages.Key) (leases []messages.Lease) {
	n.t.Helper()
	var renewals []stores.Renewal
	for _, key := range many {
		renewals = append(renewals, stores.Renewal{Key: key, Owner: n.name, Epoch: 1, TTL: span})
	}
	results, err := n.RenewMany(n.t.Context(), renewals)
	require.NoError(n.t, err)
	for _, r := range results {
		require.NoError(n.t, r.Err)
		leases = append(leases, r.Lease)
	}
	return leases
}

// held requires that the lease is held, and for how long yet as far as n can prove.
func (n node) held(key messages.Key, by messages.Lease, left time.Duration) {
	n.t.Helper()
	_, err := n.Acquire(n.t.Context(), key, n.name, span)
	require.ErrorIs(n.t, err, messages.ErrHeld)
	require.Equal(n.t, by, *messages.AsError(err).Lease)
	require.Equal(n.t, left, messages.AsError(err).RetryAfter)
}

func (n node) lost(key messages.Key, epoch uint64, to string) {
	n.t.Helper()
	_, err := n.Renew(n.t.Context(), key, n.name, epoch, span)
	require.ErrorIs(n.t, err, messages.ErrLost)
	require.Equal(n.t, to, messages.AsError(err).Owner)
}

// sent counts the requests since the last call that match.
func (n node) sent(match func(*http.Request) bool) (count int) {
	for _, r := range n.proxy.Requests() {
		if match(r) {
			count++
		}
	}
	return count
}

func anything(*http.Request) bool { return true }

func keys(n int) []messages.Key {
	out := make([]messages.Key, n)
	for i := range out {
		out[i] = storetest.NewKey()
	}
	return out
}

func TestRenewManythingIsOneRequestAndEachIsAnsweredAlone(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	n := nodeOn(t, server, "a")
	many := keys(300)
	var group errgroup.Group
	group.SetLimit(16)
	for _, key := range many {
		group.Go(func() error {
			_, err := n.Acquire(t.Context(), key, "a", span)
			return err
		})
	}
	require.NoError(t, group.Wait())
	var renewals []stores.Renewal
	for _, key := range many {
		renewals = append(renewals, stores.Renewal{Key: key, Owner: "a", Epoch: 1, TTL: span})
	}
	for range 3 {
		n.clock.Advance(time.Second)
		n.sent(anything)
		results, err := n.RenewMany(t.Context(), renewals)
		require.NoError(t, err)
		require.Equal(t, 1, n.sent(anything))
		for i, r := range results {
			require.NoError(t, r.Err)
			lease, ok, err := n.Read(t.Context(), many[i])
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, r.Lease, lease)
			if i == 10 {
				break // a read is two requests
			}
		}
	}
	listed, err := n.Leases.Leases(t.Context(), "", 1000)
	require.NoError(t, err)
	require.Len(t, listed, 300)
	for _, lease := range listed {
		require.Equal(t, listed[0].End, lease.End, "the renewed end")
	}

	renewals[1].Owner = "b"
	renewals[2].Epoch = 2
	renewals[3].TTL = 2 * span
	renewals[4].TTL = time.Millisecond
	renewals[5].Key.Org = "../x"
	renewals[6].Key = storetest.NewKey()
	renewals[8] = renewals[7]
	results, err := n.RenewMany(t.Context(), renewals)
	require.NoError(t, err)
	for i, want := range map[int]error{0: nil, 1: messages.ErrLost, 2: messages.ErrLost, 3: nil, 4: messages.ErrOutOfRange, 5: messages.ErrInvalidID, 6: messages.ErrLost, 7: nil, 8: nil, 9: nil} {
		require.ErrorIs(t, results[i].Err, want, "%d", i)
	}
	require.Equal(t, 2*span, results[3].Lease.TTL)
	require.Equal(t, []string{"acquire a 1 0", "renew a 1 0", "renew a 1 0", "renew a 1 0", "renew a 1 0"}, ops(t, n.Leases, many[3]))
}

func TestB6_TheLeasesOfADeadNodeAreTakenByOneReplacementOfItsLog(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	a, b := nodeOn(t, server, "a"), nodeOn(t, server, "b")
	b.acquire(storetest.NewKey()) // it has a renewal log of its own
	many := keys(20)
	for _, key := range many[:18] {
		a.acquire(key)
	}
	a.clock.Advance(time.Second)
	ends := map[messages.Key]messages.Lease{}
	for _, key := range many[:18] {
		ends[key] = a.renew(key, 1)
	}
	for _, key := range many[18:] { // these two die before their first renewal
		ends[key] = a.acquire(key)
	}
	b.clock.Advance(time.Hour)
	for _, key := range many {
		b.held(key, ends[key], span)
	}
	b.clock.Advance(span - time.Millisecond)
	for _, key := range many {
		b.held(key, ends[key], time.Millisecond)
	}
	b.clock.Advance(time.Millisecond)
	b.proxy.Requests()
	for _, key := range many {
		require.Equal(t, uint64(2), b.acquire(key).Epoch)
	}
	require.Equal(t, 2*len(many)+2, b.sent(func(r *http.Request) bool { return r.Method != http.MethodHead }), "two for each, and a look at the log and its replacement")
	for _, key := range many {
		a.lost(key, 1, "b")
	}
	// What a opens from now on is renewed as ever.
	fresh := storetest.NewKey()
	a.acquire(fresh)
	a.renew(fresh, 1)
	a.proxy.Requests()
	a.renew(fresh, 1)
	require.Equal(t, 1, a.sent(anything))
}

// One tenant of a live node is over: taking it hurts no other.
func TestB6_OneLeaseOfALiveNodeIsTaken(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	a, b := nodeOn(t, server, "a"), nodeOn(t, server, "b")
	over, many := storetest.NewKey(), keys(5)
	live := many[0]
	a.acquire(over)
	for _, key := range many {
		a.acquire(key)
	}
	last := a.renew(over, 1)
	for range 5 {
		b.held(live, a.renewAll(many)[0], span)
		b.clock.Advance(span / 5)
	}
	b.held(over, last, span)
	b.clock.Advance(span - 1)
	end := a.renewAll(many)[0]
	b.held(live, end, span)
	b.clock.Advance(1)
	require.Equal(t, uint64(2), b.acquire(over).Epoch)

	a.proxy.Requests()
	a.renewAll(many)
	require.Equal(t, 3, a.sent(anything), "it learns of the revocation, and goes on in the log")
	end = a.renewAll(many)[0]
	require.Equal(t, 1, a.sent(anything), "they are still renewed in the log")
	b.held(live, end, span)
	a.lost(over, 1, "b")
	require.Equal(t, []string{"acquire a 1 0", "renew a 1 0", "acquire b 2 0"}, ops(t, b.Leases, over))
}

// Another process that acts for the same owner: the log's writer renews nothing behind its back.
func TestB5_AnotherProcessOfTheSameOwner(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	a, b, c := nodeOn(t, server, "a"), nodeOn(t, server, "a"), nodeOn(t, server, "c")
	key, other := storetest.NewKey(), storetest.NewKey()
	a.acquire(key)
	a.acquire(other)
	a.renew(key, 1)
	a.renew(other, 1)
	c.held(key, b.renew(key, 1), span)
	c.held(key, a.renew(key, 1), span)
	c.held(key, b.renew(key, 1), span)
	require.NoError(t, b.Release(t.Context(), key, "a", 1))
	_, err := a.Renew(t.Context(), key, "a", 1, span)
	require.ErrorIs(t, err, messages.ErrLost)
	require.Equal(t, uint64(2), c.acquire(key).Epoch)
	a.lost(key, 1, "c")
	c.held(other, a.renew(other, 1), span)
	require.Equal(t, []string{"acquire a 1 0", "renew a 1 0", "renew a 1 0", "renew a 1 0", "renew a 1 0", "release a 1 0", "acquire c 2 0"}, ops(t, c.Leases, key))
}

// Somebody in the holder's own process who holds nothing, or no more, does not make the holder's next renewal dearer.
func TestB9_AStaleClaimDoesNotDisturbTheHolder(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	a, b := nodeOn(t, server, "a"), nodeOn(t, server, "b")
	key := storetest.NewKey()
	a.acquire(key)
	require.NoError(t, a.Release(t.Context(), key, "a", 1))
	a.acquire(key)
	a.renew(key, 2)
	require.ErrorIs(t, a.Release(t.Context(), key, "a", 1), messages.ErrLost)
	require.ErrorIs(t, a.MarkForgotten(t.Context(), key, "b", 2), messages.ErrLost)
	a.lost(key, 1, "a")
	a.proxy.Requests()
	lease := a.renew(key, 2)
	require.Equal(t, 1, a.sent(isLogPut), "it is still renewed in the log")
	b.held(key, lease, span)
}

// The process that let a lease run out acquires it anew: its log forgets the old renewals.
func TestB7_AcquiredAnewByTheSameProcess(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	a := nodeOn(t, server, "a")
	key := storetest.NewKey()
	for epoch := uint64(1); epoch <= 3; epoch++ {
		require.Equal(t, epoch, a.acquire(key).Epoch)
		lease := a.renew(key, epoch)
		a.held(key, lease, span)
		a.clock.Advance(span - 1)
		a.held(key, lease, time.Millisecond)
		lease = a.renew(key, epoch)
		a.held(key, lease, span)
		a.clock.Advance(span)
		_, err := a.Renew(t.Context(), key, "a", epoch, span)
		require.ErrorIs(t, err, messages.ErrLost)
	}
}
