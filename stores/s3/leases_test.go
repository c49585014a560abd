package s3_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest"
)

// isLeasePut matches the writes of records, and of renewal logs.
func isLeasePut(r *http.Request) bool {
	return isRecordPut(r) || isLogPut(r)
}

func isRecordPut(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/leases/")
}

func isLogPut(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/renewals/")
}

func ops(t *testing.T, leases *s3.Leases, key messages.Key) []string {
	t.Helper()
	trail, err := leases.History(t.Context(), key)
	require.NoError(t, err)
	var out []string
	for _, e := range trail {
		out = append(out, fmt.Sprintf("%s %s %d %d", e.Op, e.Owner, e.Epoch, e.Floor))
	}
	return out
}

func TestS10_LostAnswersOfLeaseWritesAreSettled(t *testing.T) {
	t.Parallel()
	b, proxy, _ := proxied(t, func(c *s3.Config) { c.Attempts = 2 })
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	for _, fate := range []s3test.Fate{s3test.LoseAnswer, s3test.LoseAsked, s3test.Refuse} {
		t.Run(fmt.Sprint(fate), func(t *testing.T) {
			key := messages.Key{Org: "acme", Tenant: messages.TenantID(fmt.Sprintf("t-%032x", fate))}
			proxy.Next(fate, isLeasePut)
			lease, err := leases.Acquire(t.Context(), key, "a", time.Minute)
			require.NoError(t, err)
			require.Equal(t, uint64(1), lease.Epoch)
			proxy.Next(fate, isLeasePut)
			_, err = leases.Renew(t.Context(), key, "a", 1, time.Minute)
			require.NoError(t, err)
			proxy.Next(fate, isLeasePut)
			require.NoError(t, leases.MarkForgotten(t.Context(), key, "a", 1))
			proxy.Next(fate, isLeasePut)
			require.NoError(t, leases.Release(t.Context(), key, "a", 1))
			require.Equal(t, []string{"acquire a 1 0", "renew a 1 0", "forget a 1 1", "release a 1 1"}, ops(t, leases, key), "each once")
		})
	}
	t.Run("nothing can be read back", func(t *testing.T) {
		var sent atomic.Bool
		proxy.Decide(func(r *http.Request) s3test.Fate {
			switch {
			case isLeasePut(r):
				sent.Store(true)
				return s3test.LoseAnswer
			case sent.Load():
				return s3test.LoseAsked
			}
			return s3test.Pass
		})
		_, err := leases.Acquire(t.Context(), key1, "a", time.Minute)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		proxy.Decide(nil)
		lease, ok, err := leases.Read(t.Context(), key1)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "a", lease.Owner, "it had taken effect")
		_, err = leases.Renew(t.Context(), key1, "a", 1, time.Minute)
		require.NoError(t, err, "adopted by renewing")
	})
}

func TestS10_ALostLeaseWriteIsNotGuessed(t *testing.T) {
	t.Parallel()
	b, proxy, server := proxied(t, func(c *s3.Config) { c.Attempts = 2 })
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	other := openLeases(t, config(server.Endpoint), s3.LeaseConfig{})

	// Somebody else was granted the same epoch while the request was lost on its way.
	proxy.Decide(func(r *http.Request) s3test.Fate {
		if !isLeasePut(r) {
			return s3test.Pass
		}
		proxy.Decide(nil)
		_, err := other.Acquire(t.Context(), key1, "b", time.Minute)
		require.NoError(t, err)
		return s3test.LoseAsked
	})
	_, err = leases.Acquire(t.Context(), key1, "a", time.Minute)
	require.ErrorIs(t, err, messages.ErrHeld)
	require.Equal(t, "b", messages.AsError(err).Owner)

	// No request arrived, as far as one can see: each may still arrive.
	proxy.Decide(func(r *http.Request) s3test.Fate {
		if isLeasePut(r) {
			return s3test.LoseAsked
		}
		return s3test.Pass
	})
	proxy.Requests()
	_, err = leases.Renew(t.Context(), key1, "b", 1, time.Minute)
	require.ErrorIs(t, err, messages.ErrUnavailable)
	puts := 0
	for _, r := range proxy.Requests() {
		if isLeasePut(r) {
			puts++
		}
	}
	require.Equal(t, 2, puts)
}

// What this process knows of its own lease is never enough to refuse.
func TestD5_ARefusalNamesTheNewHolder(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	t.Run("who thinks that he holds it", func(t *testing.T) { refusalNamesTheNewHolder(t, server, key1, 0) })
	t.Run("who knows that he does not", func(t *testing.T) { refusalNamesTheNewHolder(t, server, storetest.NewKey(), time.Second) })
}

func refusalNamesTheNewHolder(t *testing.T, server *s3test.Server, key messages.Key, expired time.Duration) {
	old, clock := manual(t, server, s3.LeaseConfig{})
	lease, err := old.Acquire(t.Context(), key, "a", time.Second)
	require.NoError(t, err)
	successor, hers := manual(t, server, s3.LeaseConfig{})
	_, err = successor.Acquire(t.Context(), key, "b", time.Minute)
	require.ErrorIs(t, err, messages.ErrHeld)
	hers.Advance(time.Second)
	_, err = successor.Acquire(t.Context(), key, "b", time.Minute)
	require.NoError(t, err)
	clock.Advance(expired)
	for range 2 {
		_, err = old.Renew(t.Context(), key, "a", lease.Epoch, time.Second)
		require.ErrorIs(t, err, messages.ErrLost)
		require.Equal(t, "b", messages.AsError(err).Owner)
		require.Equal(t, uint64(2), messages.AsError(err).Epoch)
	}
}

// What a renewal costs: one request, and one more for each 64 that overflow.
func TestARenewalIsOneRequest(t *testing.T) {
	t.Parallel()
	b, proxy, _ := proxied(t, nil)
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	_, err = leases.Acquire(t.Context(), key1, "a", time.Minute)
	require.NoError(t, err)
	proxy.Requests()
	const renewals = 200
	for range renewals {
		_, err := leases.Renew(t.Context(), key1, "a", 1, time.Minute)
		require.NoError(t, err)
	}
	require.Len(t, proxy.Requests(), renewals+2)
	require.Len(t, ops(t, leases, key1), 1+renewals)
}

// Leases are acquired in parallel, but never more than MaxRequests at once.
func TestAcquiresInParallelAreBounded(t *testing.T) {
	t.Parallel()
	b, proxy, _ := proxied(t, func(c *s3.Config) { c.MaxRequests = 4 })
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	var flying, most atomic.Int32
	full := make(chan struct{})
	var once sync.Once
	proxy.Decide(func(*http.Request) s3test.Fate {
		n := flying.Add(1)
		defer flying.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == 4 {
			once.Do(func() {
				_ = storetest.RealTime{}.Pass(t.Context(), 200*time.Millisecond) // for a fifth one, if it may come
				close(full)
			})
		}
		<-full
		return s3test.Pass
	})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, err := leases.Acquire(t.Context(), messages.Key{Org: "acme", Tenant: messages.TenantID(fmt.Sprintf("t-%032x", i))}, "a", time.Minute)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int32(4), most.Load())
}

// Many contenders, two stores, and a network that loses a third of what is sent: every epoch is granted once.
func TestB4_ContendersOverALossyNetwork(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	proxy := s3test.NewProxy(t, server)
	cfg := config(proxy.Endpoint)
	cfg.Attempts = 3
	all := []*s3.Leases{openLeases(t, cfg, s3.LeaseConfig{}), openLeases(t, cfg, s3.LeaseConfig{})}
	var mu sync.Mutex
	chance := rand.New(rand.NewPCG(1, 2))
	proxy.Decide(func(*http.Request) s3test.Fate {
		mu.Lock()
		defer mu.Unlock()
		switch chance.IntN(6) {
		case 0:
			return s3test.LoseAnswer
		case 1:
			return s3test.LoseAsked
		}
		return s3test.Pass
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	granted := map[uint64]string{}
	unknown := 0
	var wg sync.WaitGroup
	for i := range 4 {
		owner := fmt.Sprintf("owner-%d", i)
		leases := all[i%2]
		wg.Go(func() {
			for range 25 {
				lease, err := leases.Acquire(ctx, key1, owner, messages.MinTTL)
				if err == nil {
					mu.Lock()
					if other, twice := granted[lease.Epoch]; twice {
						t.Errorf("epoch %d was granted to %s and to %s", lease.Epoch, other, owner)
					}
					granted[lease.Epoch] = owner
					mu.Unlock()
					err = leases.Release(ctx, key1, owner, lease.Epoch)
				}
				switch messages.CodeOf(err) {
				case "", messages.CodeHeld, messages.CodeLost:
				case messages.CodeUnavailable:
					mu.Lock()
					unknown++
					mu.Unlock()
				default:
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, ctx.Err())
	proxy.Decide(nil)
	trail, err := all[0].History(t.Context(), key1)
	require.NoError(t, err)
	epoch := uint64(0)
	for _, e := range trail {
		if e.Op == messages.OpAcquire {
			epoch++
			require.Equal(t, epoch, e.Epoch)
			if owner, told := granted[epoch]; told {
				require.Equal(t, owner, e.Owner)
				delete(granted, epoch)
			}
		}
	}
	require.Empty(t, granted, "a grant that was told of is not in the trail")
	require.Greater(t, epoch, uint64(5))
	t.Logf("%d epochs, %d operations without a certain answer", epoch, unknown)
}
