package nats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
	"github.com/leasehold/leasehold/stores/storetest"
)

// acquireMany acquires n leases, side by side.
func acquireMany(t testing.TB, store *nats.Leases, n int) []stores.Renewal {
	t.Helper()
	batch := make([]stores.Renewal, n)
	errs := make(chan error, 16)
	for w := range cap(errs) {
		go func() {
			var err error
			for i := w; i < n && err == nil; i += cap(errs) {
				batch[i] = stores.Renewal{Key: storetest.NewKey(), Owner: "a", Epoch: 1, TTL: time.Hour}
				_, err = store.Acquire(context.Background(), batch[i].Key, "a", time.Hour)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	return batch
}

func TestRenewMany_FiveThousandInTwentyFiveRoundTrips(t *testing.T) {
	on(t, func(t *testing.T, k kind) {
		cfg := k.config(t)
		if k.replicas == 1 {
			// One server syncs each of the 5,000 on its own; what is counted here is round trips.
			s, err := natsserver.Start(t.Context(), natsserver.Config{Dir: t.TempDir(), NoSync: true})
			require.NoError(t, err)
			t.Cleanup(s.Shutdown)
			cfg.URL = s.URL()
		}
		cfg.Timeout = 4 * time.Minute
		store := openLeases(t, cfg)
		batch := acquireMany(t, store, 5000)
		most := renewInEveryState(t, cfg, store, batch)
		// A machine that stands still makes some of them be sent again. What takes too many every time is a fault.
		for round := 1; most > 25; round++ {
			require.Less(t, round, 4, "%d round trips", most)
			most = renewInEveryState(t, cfg, store, batch)
		}
		all, err := store.Leases(t.Context(), "", 10_000)
		require.NoError(t, err)
		require.Len(t, all, 5000)
	})
}

// renewInEveryState renews a batch with stores that know more and less about it, the first of which has renewed it last. It
// returns the most round trips that one of them took.
func renewInEveryState(t *testing.T, cfg nats.Config, store *nats.Leases, batch []stores.Renewal) (most int64) {
	t.Helper()
	fresh := openLeases(t, cfg)
	for _, step := range []struct {
		name  string
		store *nats.Leases
		usual int64
	}{{"knows its own", store, 10}, {"knows nothing", fresh, 15}, {"knows them now", fresh, 10}, {"knows what is no longer true", store, 25}} {
		s := step.store
		before, began := s.RoundTrips(), time.Now()
		results, err := s.RenewMany(t.Context(), batch)
		require.NoError(t, err)
		took := s.RoundTrips() - before
		t.Logf("%s: %d round trips, %v", step.name, took, time.Since(began))
		if took > step.usual {
			t.Logf("%s: more than the usual %d round trips", step.name, step.usual)
		}
		for i, r := range results {
			require.NoError(t, r.Err)
			require.Equal(t, batch[i].Key, r.Lease.Key)
		}
		most = max(most, took)
	}
	return most
}

// A lease that was taken over is refused alone, with everything that the holder believed to know.
func TestRenewMany_ATakenLeaseFailsAlone(t *testing.T) {
	cfg := kinds[0].config(t)
	store, other := openLeases(t, cfg), openLeases(t, cfg)
	batch := acquireMany(t, store, 3)
	require.NoError(t, other.Release(t.Context(), batch[1].Key, "a", 1))
	_, err := other.Acquire(t.Context(), batch[1].Key, "b", time.Hour)
	require.NoError(t, err)
	results, err := store.RenewMany(t.Context(), batch)
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	require.ErrorIs(t, results[1].Err, messages.ErrLost)
	require.Equal(t, "b", messages.AsError(results[1].Err).Owner)
	require.NoError(t, results[2].Err)
}

// What a renewal costs beside a bare key-value update on the same servers, alone and in a batch.
func BenchmarkRenew(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name+"/bare_update", func(b *testing.B) {
			cfg := k.config(b)
			js, err := jetstream.New(dial(b, cfg.URL))
			require.NoError(b, err)
			kv, err := js.CreateKeyValue(b.Context(), jetstream.KeyValueConfig{Bucket: cfg.Cluster, Replicas: k.replicas, History: 64})
			require.NoError(b, err)
			value, err := json.Marshal(messages.Lease{Owner: "a"})
			require.NoError(b, err)
			seq, err := kv.Create(b.Context(), "key", value)
			require.NoError(b, err)
			for b.Loop() {
				if seq, err = kv.Update(b.Context(), "key", value, seq); err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, n := range []int{1, 500} {
			b.Run(fmt.Sprintf("%s/renew_%d", k.name, n), func(b *testing.B) {
				cfg := k.config(b)
				store := openLeases(b, cfg)
				batch := acquireMany(b, store, n)
				for b.Loop() {
					results, err := store.RenewMany(b.Context(), batch)
					if err != nil || results[0].Err != nil {
						b.Fatal(err, results)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/lease")
			})
		}
	}
}
