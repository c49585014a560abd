package storetest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/storetest"
)

// A wrapper that is told nothing is the store that it wraps.
func TestWrappers_ConformWithoutFaults(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		require.Empty(t, storetest.CheckLeases(t.Context(), leases(t, root), storetest.RealTime{}))
		require.Empty(t, storetest.CheckDurable(t.Context(), objects(t, root)))
	})
}

// singles is a lease store without the optional interfaces.
type singles struct{ stores.LeaseStore }

func TestWrappers_WithoutTheOptionalInterfaces(t *testing.T) {
	store := storetest.NewFaultyLeases(singles{leases(t, t.TempDir())})
	key := storetest.NewKey()
	lease, err := store.Acquire(t.Context(), key, "a", ttl)
	require.NoError(t, err)
	results, err := store.RenewMany(t.Context(), []stores.Renewal{
		{Key: key, Owner: "a", Epoch: lease.Epoch, TTL: ttl},
		{Key: key, Owner: "b", Epoch: lease.Epoch, TTL: ttl},
	})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	require.ErrorIs(t, results[1].Err, messages.ErrLost)
	_, err = store.Leases(t.Context(), "", 1)
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
}

func TestObserve_SeesEveryCallWithArgumentsAndResults(t *testing.T) {
	store := leases(t, t.TempDir())
	var events []storetest.Event
	store.Observe(func(e storetest.Event) { events = append(events, e) })
	key := storetest.NewKey()
	lease, err := store.Acquire(t.Context(), key, "a", ttl)
	require.NoError(t, err)
	store.LoseNext(storetest.OpRelease, nil)
	require.Error(t, store.Release(t.Context(), key, "a", lease.Epoch))
	require.Len(t, events, 6)
	for i, want := range []storetest.Phase{storetest.Called, storetest.Took, storetest.Answered} {
		require.Equal(t, want, events[i].Phase)
		require.Equal(t, uint64(1), events[i].Call.Seq)
		require.Equal(t, storetest.OpAcquire, events[i].Call.Op)
		require.Equal(t, key.String(), events[i].Call.Key)
		require.Equal(t, "a", events[i].Call.Owner)
		require.Equal(t, ttl, events[i].Call.TTL)
		require.Equal(t, uint64(2), events[3+i].Call.Seq)
		require.Equal(t, lease.Epoch, events[3+i].Call.Epoch)
	}
	require.Equal(t, lease, events[2].Result.Lease)
	require.NoError(t, events[4].Result.Err, "the real store released it")
	require.Error(t, events[5].Result.Err, "the caller does not know")
}

// The programmable core under a seeded random function, with many callers, as the simulation drives it:
// nothing hangs, races or leaks, and every answer agrees with what the real store was asked.
func TestProgram_RandomFaultsInABubble(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := objects(t, root)
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(7, 7))
		took, created := map[string]bool{}, map[string]bool{}
		store.Observe(func(e storetest.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Phase == storetest.Took && e.Result.OK {
				took[e.Call.Key] = true
			}
			if e.Phase == storetest.Answered && e.Result.OK {
				created[e.Call.Key] = true
			}
		})
		store.Program(func(storetest.Call) storetest.Action {
			mu.Lock()
			defer mu.Unlock()
			d := time.Duration(random.Int64N(int64(3 * time.Second)))
			return []storetest.Action{storetest.Pass(), storetest.Fail(nil), storetest.LoseAnswer(nil), storetest.FailLate(nil, d),
				storetest.Delay(d), storetest.DelayAnswer(d), storetest.Hang(), storetest.HangLate(d)}[random.IntN(8)]
		})
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := range 40 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_, err := store.PutIfAbsent(ctx, fmt.Sprintf("w%d/%d", w, i), []byte("x"))
					if err != nil && messages.CodeOf(err) != messages.CodeUnavailable {
						t.Errorf("untyped: %v", err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
		require.Zero(t, store.Late())
		store.Clear()
		keys, err := store.List(t.Context(), "")
		require.NoError(t, err)
		require.Len(t, keys, len(took))
		for key := range created {
			require.Contains(t, keys, key)
		}
		require.Greater(t, len(took), len(created), "some answers were lost")
		require.Less(t, len(took), 8*40, "some puts had no effect")
	})
}

// A check of a store that panics, or hangs, is a failed check and not the end of the suite.
type panics struct{ stores.DurableStore }

func (panics) List(context.Context, string) ([]string, error) { panic("oh no") }

func TestSuite_SurvivesAPanic(t *testing.T) {
	failures := storetest.CheckDurable(t.Context(), panics{objects(t, t.TempDir())})
	require.NotEmpty(t, failures)
	ids := map[string]bool{}
	for _, f := range failures {
		ids[f.Check] = true
		require.Contains(t, f.String(), "oh no")
	}
	require.Equal(t, map[string]bool{"F2": true, "F4": true, "F7": true, "F.race": true}, ids)
}

func TestSuite_SurvivesAHang(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := leases(t, root)
		store.Freeze()
		failures := storetest.CheckLeases(t.Context(), store, storetest.RealTime{})
		require.GreaterOrEqual(t, len(failures), 14)
	})
}
