package s3_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest"
)

// Each of these fates meets one request that replaces a log: the renewal is granted, and once.
func TestS10_ALostAnswerOfARenewalLogIsSettled(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	a, b := nodeOn(t, server, "a"), nodeOn(t, server, "b")
	key := storetest.NewKey()
	a.acquire(key)
	want := []string{"acquire a 1 0"}
	for _, fate := range []s3test.Fate{s3test.LoseAnswer, s3test.LoseAsked, s3test.Refuse, s3test.LoseAnswer} {
		a.clock.Advance(time.Second)
		a.proxy.Next(fate, isLogPut)
		lease := a.renew(key, 1)
		want = append(want, "renew a 1 0")
		b.held(key, lease, span)
		require.Equal(t, want, ops(t, b.Leases, key))
	}
}

// The same for a contender that revokes.
func TestS10_ALostAnswerOfARevocationIsSettled(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	for _, fate := range []s3test.Fate{s3test.LoseAnswer, s3test.LoseAsked, s3test.Refuse} {
		a, b := nodeOn(t, server, "a"), nodeOn(t, server, "b")
		key := storetest.NewKey()
		a.acquire(key)
		b.held(key, a.renew(key, 1), span)
		b.clock.Advance(span)
		b.proxy.Next(fate, isLogPut)
		require.Equal(t, uint64(2), b.acquire(key).Epoch)
	}
}

// What is sent and never answered may come late, or never. Nobody is told that it was granted.
func TestS10_ARenewalThatComesLate(t *testing.T) {
	late := func(n node) {
		n.proxy.Decide(func(r *http.Request) s3test.Fate {
			if isLogPut(r) {
				return s3test.Late
			}
			return s3test.Pass
		})
		_, err := n.Renew(n.t.Context(), key1, n.name, 1, span)
		require.ErrorIs(n.t, err, messages.ErrUnavailable)
		n.proxy.Decide(nil)
	}
	begin := func(t *testing.T) (a, b node) {
		t.Parallel()
		server := s3test.Start(t)
		a, b = nodeOn(t, server, "a"), nodeOn(t, server, "b")
		a.acquire(key1)
		lease := a.renew(key1, 1)
		b.held(key1, lease, span)
		return a, b
	}
	t.Run("after the takeover: it has no effect", func(t *testing.T) {
		a, b := begin(t)
		a.clock.Advance(span - 1)
		late(a)
		b.clock.Advance(span)
		lease := b.acquire(key1)
		require.Equal(t, []int{http.StatusPreconditionFailed, http.StatusPreconditionFailed}, a.proxy.Deliver())
		a.lost(key1, 1, "b")
		a.held(key1, lease, span)
	})
	t.Run("before it: the lease stands for another span", func(t *testing.T) {
		a, b := begin(t)
		a.clock.Advance(span - 1)
		late(a)
		b.clock.Advance(span)
		require.Equal(t, []int{http.StatusOK, http.StatusPreconditionFailed}, a.proxy.Deliver())
		_, err := b.Acquire(t.Context(), key1, "b", span)
		require.ErrorIs(t, err, messages.ErrHeld)
		require.Equal(t, span, messages.AsError(err).RetryAfter)
		a.renew(key1, 1) // it was sent in time, and a learns that it was granted
	})
	t.Run("before the same process acquires anew: that is not granted too early", func(t *testing.T) {
		a, _ := begin(t)
		a.clock.Advance(span - 1)
		late(a)
		a.clock.Advance(1)
		require.Equal(t, http.StatusOK, a.proxy.Deliver()[0])
		_, err := a.Acquire(t.Context(), key1, "a2", span)
		require.ErrorIs(t, err, messages.ErrHeld)
	})
	t.Run("after the same process has acquired anew: it has no effect", func(t *testing.T) {
		a, b := begin(t)
		a.clock.Advance(span - 1)
		late(a)
		a.clock.Advance(1)
		lease, err := a.Acquire(t.Context(), key1, "a2", span)
		require.NoError(t, err)
		require.Equal(t, []int{http.StatusPreconditionFailed, http.StatusPreconditionFailed}, a.proxy.Deliver())
		b.held(key1, lease, span)
	})
	t.Run("during the next renewal: both are granted", func(t *testing.T) {
		a, b := begin(t)
		late(a)
		a.clock.Advance(time.Second)
		a.proxy.Next(s3test.Pass, func(r *http.Request) bool {
			if isLogPut(r) {
				a.proxy.Decide(nil)
				require.Equal(t, http.StatusOK, a.proxy.Deliver()[0])
			}
			return false
		})
		lease := a.renew(key1, 1)
		b.held(key1, lease, span)
		require.Equal(t, []string{"acquire a 1 0", "renew a 1 0", "renew a 1 0", "renew a 1 0"}, ops(t, b.Leases, key1))
	})
	t.Run("a log that is created late", func(t *testing.T) {
		t.Parallel()
		server := s3test.Start(t)
		a, b := nodeOn(t, server, "a"), nodeOn(t, server, "b")
		lease := a.acquire(key1)
		b.held(key1, lease, span)
		late(a)
		b.clock.Advance(span)
		b.acquire(key1)
		require.Equal(t, []int{http.StatusPreconditionFailed, http.StatusPreconditionFailed}, a.proxy.Deliver())
		a.lost(key1, 1, "b")
	})
}

// A log that somebody deleted or damaged: its writer goes on by the records, with another log.
func TestALogThatIsGoneOrDamaged(t *testing.T) {
	for what, harm := range map[string]func(t *testing.T, log string){
		"gone":    func(t *testing.T, log string) { require.NoError(t, os.Remove(log)) },
		"damaged": func(t *testing.T, log string) { require.NoError(t, os.WriteFile(log, []byte(`{"v":1}`), 0o600)) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := s3test.Start(t)
			a, b := nodeOn(t, server, "a"), nodeOn(t, server, "b")
			key := storetest.NewKey()
			lease := a.acquire(key)
			a.renew(key, 1)
			logs, err := filepath.Glob(server.Path("renewals/*"))
			require.NoError(t, err)
			require.Len(t, logs, 1)
			harm(t, logs[0])
			_, err = b.Acquire(t.Context(), key, "b", span)
			if what == "damaged" {
				require.ErrorIs(t, err, messages.ErrCorrupt)
				require.Equal(t, "renewals/"+filepath.Base(logs[0]), messages.AsError(err).Object)
			} else {
				require.ErrorIs(t, err, messages.ErrHeld)
				require.Equal(t, lease, *messages.AsError(err).Lease, "as old as the record says")
			}
			lease = a.renew(key, 1)
			b.held(key, lease, span)
			a.proxy.Requests()
			b.held(key, a.renew(key, 1), span)
			require.Equal(t, 1, a.sent(anything), "in another log")
		})
	}
}

// A log that vanished after a contender had seen it: the lease is taken when any renewal that may have stood there is over.
// And it does not come back.
func TestTheLeaseOfADeadNodeWhoseLogIsGone(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	a, b := nodeOn(t, server, "a"), nodeOn(t, server, "b")
	key := storetest.NewKey()
	a.acquire(key)
	a.renew(key, 1)
	b.held(key, a.renew(key, 1), span)
	logs, err := filepath.Glob(server.Path("renewals/*"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	a.proxy.Decide(func(r *http.Request) s3test.Fate {
		if isLogPut(r) {
			return s3test.Late
		}
		return s3test.Pass
	})
	_, err = a.Renew(t.Context(), key, "a", 1, span)
	require.ErrorIs(t, err, messages.ErrUnavailable)
	a.proxy.Decide(nil)
	require.NoError(t, os.Remove(logs[0]))
	b.clock.Advance(span)
	held := func(left time.Duration) {
		t.Helper()
		_, err := b.Acquire(t.Context(), key, "b", span)
		require.ErrorIs(t, err, messages.ErrHeld)
		require.Equal(t, left, messages.AsError(err).RetryAfter)
	}
	held(span)
	b.clock.Advance(span - time.Millisecond)
	held(time.Millisecond)
	for _, code := range a.proxy.Deliver() {
		require.Equal(t, http.StatusNotFound, code)
	}
	b.clock.Advance(time.Millisecond)
	require.Equal(t, uint64(2), b.acquire(key).Epoch)
	a.lost(key, 1, "b")
	_, err = os.Stat(logs[0])
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A server that answers nothing holds a renewal up for as long as its caller waits, and no longer.
func TestARenewalThatHangsEndsWithItsCallers(t *testing.T) {
	t.Parallel()
	a := nodeOn(t, s3test.Start(t), "a")
	one, two := storetest.NewKey(), storetest.NewKey()
	a.acquire(one)
	a.acquire(two)
	gate := make(chan struct{})
	a.proxy.Decide(func(*http.Request) s3test.Fate { <-gate; return s3test.LoseAsked })
	var wg sync.WaitGroup
	for _, key := range []messages.Key{one, two} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		wg.Go(func() {
			if _, err := a.Renew(ctx, key, "a", 1, span); messages.CodeOf(err) != messages.CodeUnavailable {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	close(gate)
	a.proxy.Decide(nil)
	a.renew(one, 1)
	a.renew(two, 1)
}

// Three processes that renew, release, freeze and contend for twelve tenants over networks that lose a quarter of what is
// sent and bring some of it late: nobody is told of a grant while another may still think that it holds the lease.
func TestB4_NoTwoHoldersOverALossyNetwork(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	const ttl, tenants = 400 * time.Millisecond, 12
	var mu sync.Mutex
	until := map[messages.Key]map[uint64]time.Time{} // how long the holder of an epoch may think that it holds the lease
	grants, renewed, unknown := 0, 0, 0
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	granted := func(key messages.Key, epoch uint64, sent, now time.Time) {
		mu.Lock()
		defer mu.Unlock()
		grants++
		for other, end := range until[key] {
			if other == epoch || end.After(now) && sent.Add(ttl).After(now) {
				t.Errorf("%s: epoch %d is granted while epoch %d holds the lease for another %v", key, epoch, other, end.Sub(now))
			}
		}
		until[key][epoch] = sent.Add(ttl)
	}
	many := keys(tenants)
	for _, key := range many {
		until[key] = map[uint64]time.Time{}
	}
	var wg sync.WaitGroup
	for i := range 3 {
		owner := fmt.Sprint("owner-", i)
		proxy := s3test.NewProxy(t, server)
		cfg := config(proxy.Endpoint)
		cfg.Attempts = 2
		leases := openLeases(t, cfg, s3.LeaseConfig{})
		chance := rand.New(rand.NewPCG(uint64(i), 7))
		proxy.Decide(func(*http.Request) s3test.Fate {
			mu.Lock()
			defer mu.Unlock()
			switch chance.IntN(24) {
			case 0, 1:
				return s3test.LoseAnswer
			case 2, 3:
				return s3test.LoseAsked
			case 4, 5:
				return s3test.Late
			}
			return s3test.Pass
		})
		held := map[messages.Key]uint64{}
		var heldMu sync.Mutex
		wg.Go(func() { // renews what it holds, and is frozen now and then
			for n := 0; (storetest.RealTime{}).Pass(ctx, ttl/8) == nil; n++ {
				if n%17 == 5*i {
					_ = storetest.RealTime{}.Pass(ctx, 2*ttl)
				}
				if n%3 == 0 {
					proxy.Deliver()
				}
				var renewals []stores.Renewal
				heldMu.Lock()
				for key, epoch := range held {
					renewals = append(renewals, stores.Renewal{Key: key, Owner: owner, Epoch: epoch, TTL: ttl})
				}
				heldMu.Unlock()
				sent := time.Now()
				results, err := leases.RenewMany(ctx, renewals)
				if err != nil {
					continue
				}
				for j, r := range results {
					key, epoch := renewals[j].Key, renewals[j].Epoch
					mu.Lock()
					switch messages.CodeOf(r.Err) {
					case "":
						renewed++
						if end, ok := until[key][epoch]; ok && end.Before(sent.Add(ttl)) {
							for newer := range until[key] {
								if newer > epoch && sent.Add(ttl).After(time.Now()) {
									t.Errorf("%s: epoch %d is renewed after epoch %d was granted", key, epoch, newer)
								}
							}
							until[key][epoch] = sent.Add(ttl)
						}
					case messages.CodeLost:
						delete(until[key], epoch)
						heldMu.Lock()
						delete(held, key)
						heldMu.Unlock()
					default:
						unknown++
					}
					mu.Unlock()
				}
			}
		})
		for part := range 2 {
			pick := rand.New(rand.NewPCG(uint64(i), uint64(part)))
			wg.Go(func() { // acquires what it does not hold, and lets go of some
				for ctx.Err() == nil {
					key := many[pick.IntN(tenants/2)+part*tenants/2]
					heldMu.Lock()
					epoch, mine := held[key]
					heldMu.Unlock()
					if !mine {
						sent := time.Now()
						lease, err := leases.Acquire(ctx, key, owner, ttl)
						if err != nil {
							_ = storetest.RealTime{}.Pass(ctx, 5*time.Millisecond)
							continue
						}
						granted(key, lease.Epoch, sent, time.Now())
						heldMu.Lock()
						held[key] = lease.Epoch
						heldMu.Unlock()
					} else if pick.IntN(8) == 0 {
						heldMu.Lock()
						delete(held, key) // it thinks so no more
						heldMu.Unlock()
						mu.Lock()
						delete(until[key], epoch)
						mu.Unlock()
						_ = leases.Release(ctx, key, owner, epoch)
					}
				}
			})
		}
	}
	wg.Wait()
	require.Greater(t, grants, tenants)
	require.Greater(t, renewed, 50)
	t.Logf("%d grants, %d renewals, %d without a certain answer", grants, renewed, unknown)
	late := openLeases(t, config(server.Endpoint), s3.LeaseConfig{})
	for _, key := range many {
		trail, err := late.History(t.Context(), key)
		require.NoError(t, err)
		epoch := uint64(0)
		for _, e := range trail {
			if e.Op == messages.OpAcquire {
				epoch++
			}
			require.Equal(t, epoch, e.Epoch)
		}
	}
}
