package sqltest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/storetest"
)

// granted makes n leases of owner a, in parallel.
func granted(t testing.TB, store Store, n int) []stores.Renewal {
	t.Helper()
	renewals := make([]stores.Renewal, n)
	var wg sync.WaitGroup
	const workers = 8
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				renewals[i] = stores.Renewal{Key: storetest.NewKey(), Owner: "a", Epoch: 1, TTL: time.Hour}
				if _, err := store.Acquire(t.Context(), renewals[i].Key, "a", time.Hour); err != nil {
					t.Errorf("acquire: %v", err)
				}
			}
		})
	}
	wg.Wait()
	return renewals
}

func (s Subject) testBatches(t *testing.T) {
	store, dsn := s.fresh(t, Options{})
	renewals := granted(t, store, 60)

	// An owner with every character that some notation gives a meaning, one key twice, one refused.
	odd := stores.Renewal{Key: storetest.NewKey(), Owner: `ä"'\,]{}%_$1?#` + "😀", Epoch: 1, TTL: time.Second}
	_, err := store.Acquire(t.Context(), odd.Key, odd.Owner, time.Second)
	require.NoError(t, err)
	longer := odd
	longer.TTL = time.Minute
	batch := append(slices.Clone(renewals), odd, longer, stores.Renewal{Key: odd.Key, Owner: "a", Epoch: 1, TTL: time.Hour})
	results, err := store.RenewMany(t.Context(), batch)
	require.NoError(t, err)
	require.Len(t, results, len(batch))
	for i, r := range results[:61] {
		require.NoError(t, r.Err)
		require.Equal(t, batch[i].Key, r.Lease.Key)
		require.Equal(t, batch[i].Owner, r.Lease.Owner)
	}
	require.Equal(t, time.Second, results[60].Lease.TTL)
	require.Equal(t, time.Minute, results[61].Lease.TTL, "one after the other, as single renewals would be")
	require.ErrorIs(t, results[62].Err, messages.ErrLost)
	require.Equal(t, odd.Owner, messages.AsError(results[62].Err).Owner)

	// Batches over the same keys in other orders, beside single renewals: none waits for ever, and none fails.
	other := s.open(t, dsn, Options{})
	backwards := slices.Clone(renewals)
	slices.Reverse(backwards)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := range 5 {
				st, batch := store, renewals
				if i%2 == 0 {
					st, batch = other, backwards
				}
				results, err := st.RenewMany(t.Context(), batch)
				for _, r := range results {
					err = firstError(err, r.Err)
				}
				_, single := st.Renew(t.Context(), batch[n].Key, "a", 1, time.Hour)
				if err := firstError(err, single); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Every operation is one round trip, counted on the wire, and 5,000 leases are renewed with at most 25.
func (s Subject) testRoundTrips(t *testing.T) {
	server, name := s.Database(t)
	proxy, dsn := proxied(t, server, "", name)
	owner := s.open(t, server.DSN("", name), Options{Migrate: true})
	store := s.open(t, dsn, Options{MaxConns: 1})
	key := storetest.NewKey()
	ctx := t.Context()
	all := func(key messages.Key, each func(op string, err error)) {
		_, err := store.Acquire(ctx, key, "a", time.Hour)
		each("acquire", err)
		_, err = store.Renew(ctx, key, "a", 1, time.Hour)
		each("renew", err)
		_, err = store.RenewMany(ctx, []stores.Renewal{{Key: key, Owner: "a", Epoch: 1, TTL: time.Hour}})
		each("renew many", err)
		_, _, err = store.Read(ctx, key)
		each("read", err)
		each("forget", store.MarkForgotten(ctx, key, "a", 1))
		each("release", store.Release(ctx, key, "a", 1))
		_, err = store.History(ctx, key)
		each("history", err)
		_, err = store.Leases(ctx, "", 3)
		each("leases", err)
		_, err = store.Forgotten(ctx, "", 3)
		each("forgotten", err)
	}
	all(key, func(op string, err error) { require.NoError(t, err, op) }) // the connection, and prepared statements
	before := proxy.RoundTrips()
	all(storetest.NewKey(), func(op string, err error) {
		require.NoError(t, err, op)
		require.Equal(t, 1, proxy.RoundTrips()-before, op)
		before = proxy.RoundTrips()
	})

	renewals := granted(t, owner, 5000)
	before = proxy.RoundTrips()
	start := time.Now()
	results, err := store.RenewMany(t.Context(), renewals)
	require.NoError(t, err)
	trips := proxy.RoundTrips() - before
	t.Logf("%d leases were renewed with %d round trips in %v", len(results), trips, time.Since(start).Round(time.Millisecond))
	require.LessOrEqual(t, trips, 25)
	for i, r := range results {
		require.NoError(t, r.Err)
		if r.Lease.Key != renewals[i].Key {
			t.Fatal(fmt.Sprint("result ", i, " is that of another key"))
		}
	}
}
