package stores_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

func newLeases(t *testing.T) *storetest.FaultyLeases {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "leases.db"), NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return storetest.NewFaultyLeases(s)
}

func newDurable(t *testing.T) *storetest.FaultyDurable {
	s, err := dir.Open(t.Context(), dir.Config{Root: t.TempDir(), NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return storetest.NewFaultyDurable(s)
}

// cutOff runs work on two stores that fail from its call number n on, that one with its effect or without it.
func cutOff(leases *storetest.FaultyLeases, durable *storetest.FaultyDurable, n int, effect bool, work func() error) error {
	calls := 0
	fault := func(storetest.Call) storetest.Action {
		if calls++; calls < n {
			return storetest.Pass()
		}
		if calls == n && effect {
			return storetest.LoseAnswer(nil)
		}
		return storetest.Fail(nil)
	}
	leases.Program(fault)
	durable.Program(fault)
	defer leases.Program(nil)
	defer durable.Program(nil)
	return work()
}

// A start that is cut off after any of its calls, with the effect of that call or without it, is completed by a later one on the same
// two stores; and whatever it left, of two other starts, with another lease store or another durable store, none makes
// two deployments of the stores that they share.
func TestK1_AStartThatIsCutOffIsCompletedByALaterOne(t *testing.T) {
	cut := 0
	for _, effect := range []bool{false, true} {
		for n := 1; ; n++ {
			leases, durable := newLeases(t), newDurable(t)
			err := cutOff(leases, durable, n, effect, func() error {
				_, err := stores.Bind(t.Context(), leases, durable)
				return err
			})
			if err == nil {
				break
			}
			cut++
			require.ErrorIs(t, err, messages.ErrUnavailable)
			bound := 0
			otherLeases, otherDurable := newLeases(t), newDurable(t)
			for _, pair := range []struct {
				leases  stores.LeaseStore
				durable stores.DurableStore
			}{{otherLeases, durable}, {leases, otherDurable}, {leases, durable}} {
				_, err := stores.Bind(t.Context(), pair.leases, pair.durable)
				if err == nil {
					bound++
				} else {
					require.ErrorIs(t, err, messages.ErrDeploymentMismatch)
				}
			}
			require.NotZero(t, bound)
			_, first := stores.Bind(t.Context(), otherLeases, durable)
			_, second := stores.Bind(t.Context(), leases, durable)
			_, third := stores.Bind(t.Context(), leases, otherDurable)
			require.False(t, first == nil && second == nil, "two lease stores of one durable store")
			require.False(t, third == nil && second == nil, "two durable stores of one lease store")
		}
	}
	require.GreaterOrEqual(t, cut, 12)
	t.Logf("%d starts cut off", cut)
}

// First starts at the same time: on the same two stores all get one identity; on lease stores of their own, or durable stores of
// their own, one gets one, and the others are refused.
func TestK1_FirstStartsAtOnce(t *testing.T) {
	for range 20 {
		leases, durable := newLeases(t), newDurable(t)
		bindAll := func(pair func(i int) (stores.LeaseStore, stores.DurableStore)) map[string]int {
			var wg sync.WaitGroup
			var mu sync.Mutex
			told := map[string]int{}
			for i := range 6 {
				l, d := pair(i)
				wg.Go(func() {
					identity, err := stores.Bind(context.Background(), l, d)
					mu.Lock()
					defer mu.Unlock()
					if err != nil && messages.CodeOf(err) != messages.CodeDeploymentMismatch {
						t.Errorf("bind: %v", err)
					}
					told[identity]++
				})
			}
			wg.Wait()
			return told
		}
		require.Len(t, bindAll(func(int) (stores.LeaseStore, stores.DurableStore) { return leases, durable }), 1)
		own, shared := make([]*storetest.FaultyLeases, 6), newDurable(t)
		for i := range own {
			own[i] = newLeases(t)
		}
		told := bindAll(func(i int) (stores.LeaseStore, stores.DurableStore) { return own[i], shared })
		require.Equal(t, 5, told[""], "%v", told)
		folders, one := make([]*storetest.FaultyDurable, 6), newLeases(t)
		for i := range folders {
			folders[i] = newDurable(t)
		}
		told = bindAll(func(i int) (stores.LeaseStore, stores.DurableStore) { return one, folders[i] })
		require.Equal(t, 5, told[""], "%v", told)
	}
}

func TestK1_AnIdentityIsMadeOfEmptyStoresOnly(t *testing.T) {
	t.Run("leases", func(t *testing.T) {
		leases, durable := newLeases(t), newDurable(t)
		_, err := leases.Acquire(t.Context(), storetest.NewKey(), "a", messages.MaxTTL)
		require.NoError(t, err)
		_, err = stores.Bind(t.Context(), leases, durable)
		require.ErrorIs(t, err, messages.ErrDeploymentMismatch)
		keys, err := durable.List(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, keys, "a refused start leaves nothing")
	})
	t.Run("objects", func(t *testing.T) {
		leases, durable := newLeases(t), newDurable(t)
		_, err := durable.PutIfAbsent(t.Context(), storetest.NewKey().Prefix()+"e00000001/base.json", nil)
		require.NoError(t, err)
		_, err = stores.Bind(t.Context(), leases, durable)
		require.ErrorIs(t, err, messages.ErrDeploymentMismatch)
		identity, err := leases.Deployment(t.Context())
		require.NoError(t, err)
		require.Empty(t, identity)
	})
	t.Run("no keeper", func(t *testing.T) {
		identity, err := stores.Bind(t.Context(), struct{ stores.LeaseStore }{newLeases(t)}, newDurable(t))
		require.NoError(t, err)
		require.Empty(t, identity)
	})
}

// What an operator does who has lost one of the stores.
func TestK1_Rebind(t *testing.T) {
	leases, durable := newLeases(t), newDurable(t)
	was, err := stores.Bind(t.Context(), leases, durable)
	require.NoError(t, err)
	_, err = durable.PutIfAbsent(t.Context(), storetest.NewKey().Prefix()+"e00000001/base.json", nil)
	require.NoError(t, err)

	fresh := newLeases(t) // in place of one that was lost
	now, err := stores.Rebind(t.Context(), fresh, durable)
	require.NoError(t, err)
	require.NotEqual(t, was, now)
	require.NoError(t, stores.CheckDeployment(t.Context(), fresh, durable, now))
	require.ErrorIs(t, stores.CheckDeployment(t.Context(), leases, durable, was), messages.ErrDeploymentMismatch, "a node that still runs on the lost one")
	_, err = stores.Bind(t.Context(), leases, durable)
	require.ErrorIs(t, err, messages.ErrDeploymentMismatch, "the lost one is back")

	restored := newDurable(t) // from a backup without the identity
	again, err := stores.Rebind(t.Context(), fresh, restored)
	require.NoError(t, err)
	require.Equal(t, now, again)
	again, err = stores.Bind(t.Context(), fresh, restored)
	require.NoError(t, err)
	require.Equal(t, now, again)
}

func TestK1_ADamagedIdentityIsCorrupt(t *testing.T) {
	for i, data := range []string{"", "{}", `{"version":2,"identity":"a.b"}`, `{"version":1,"identity":"a b"}`} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			durable := newDurable(t)
			_, err := durable.PutIfAbsent(t.Context(), stores.DeploymentObject, []byte(data))
			require.NoError(t, err)
			_, err = stores.Bind(t.Context(), newLeases(t), durable)
			require.ErrorIs(t, err, messages.ErrCorrupt)
			require.Equal(t, stores.DeploymentObject, messages.AsError(err).Object)
		})
	}
}
