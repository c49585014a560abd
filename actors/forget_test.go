package actors_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestH6_S6_ForgetDeletesEveryCopyAndTheNextOpenStartsEmpty(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		require.NoError(t, tenant.Handoff(t.Context()))
		appendKind(t, tenant, "2")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		var floorAtDelete []uint64
		f.durable.Before(storetest.OpDeletePrefix, func(_ ctxT, c storetest.Call) {
			lease, _, err := f.leases.Inner().Read(t.Context(), tenant.Key())
			require.NoError(t, err)
			floorAtDelete = append(floorAtDelete, lease.Floor)
			require.NotEqual(t, tenant.Key().Prefix(), c.Key, "never by the tenant's prefix")
		})
		require.NoError(t, tenant.Forget(t.Context()))
		require.NotEmpty(t, floorAtDelete)
		for _, floor := range floorAtDelete {
			require.EqualValues(t, 2, floor, "the floor is recorded before anything is deleted")
		}
		require.Empty(t, f.objects(tenant.Key()))
		root, err := tenant.Key().Root(filepath.Join(f.root, "node-1"))
		require.NoError(t, err)
		_, err = os.Stat(root)
		require.ErrorIs(t, err, os.ErrNotExist)
		require.Empty(t, kinds(t, tenant))
		require.EqualValues(t, 3, epoch(t, tenant))
	})
}

func TestS6_AForgetWhoseAnswerWasLostIsSettled(t *testing.T) {
	for name, plan := range map[string]func(*fleet){
		"the floor was set":     func(f *fleet) { f.leases.LoseNext(storetest.OpForget, nil) },
		"the floor was not set": func(f *fleet) { f.leases.FailNext(storetest.OpForget, nil) },
		"it lands late":         func(f *fleet) { f.leases.LateNext(storetest.OpForget, 10*time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				tenant := open(t, f.start(), "u")
				appendKind(t, tenant, "1")
				plan(f)
				require.NoError(t, tenant.Forget(t.Context()))
				require.Empty(t, kinds(t, tenant))
			})
		})
	}
}

func TestS6_AForgetThatCannotReachTheStoreNeverServesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		f.leases.Every(storetest.OpForget, storetest.Fail(nil))
		require.ErrorIs(t, tenant.Forget(within(t, time.Minute)), messages.ErrUnavailable)
		f.leases.Clear()
		// The floor was never set: the tenant opens at the next epoch, with its data, and can be forgotten.
		require.Equal(t, []string{"1"}, kinds(t, tenant))
		require.EqualValues(t, 2, epoch(t, tenant))
		require.NoError(t, tenant.Forget(t.Context()))
		require.Empty(t, f.objects(tenant.Key()))
	})
}

func TestS6_AFailedSweepDoesNotStopTheOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.SweepEvery = time.Minute })
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		remove := f.durable.Every(storetest.OpDeletePrefix, storetest.Fail(nil))
		require.Error(t, tenant.Forget(within(t, 10*time.Minute)), "the caller is told that copies remain")
		require.NotEmpty(t, f.objects(tenant.Key()))
		require.Empty(t, kinds(t, tenant), "nothing at or below the floor is restored")
		remove()
		time.Sleep(3 * time.Minute)
		for _, name := range f.objects(tenant.Key()) {
			o, err := messages.ParseObject(name)
			require.NoError(t, err)
			require.Greater(t, o.Epoch, uint64(1), "swept")
		}
	})
}

func TestS11_AnUploadThatLandsAfterAForgetIsSwept(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.SweepEvery = time.Minute })
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		require.NoError(t, tenant.Forget(t.Context()))
		require.Empty(t, f.objects(tenant.Key()))
		_, err := f.durable.Inner().PutIfAbsent(t.Context(), tenant.Key().ImageName(1, 7), []byte("late"))
		require.NoError(t, err)
		time.Sleep(2 * time.Minute) // nobody opens the tenant
		require.Empty(t, f.objects(tenant.Key()))
	})
}

func TestS6_TheSweepCoversLocalFilesOfOtherNodes(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		withSweep := func(c *actors.Config) { c.SweepEvery = time.Minute }
		a, b := f.start(withSweep), f.start(withSweep)
		tenant := open(t, a, "u")
		appendKind(t, tenant, "1")
		remove := f.leases.Add(func(c storetest.Call) bool {
			return c.Owner == a.Owner() || (c.Op == storetest.OpRenewMany && c.Renewals[0].Owner == a.Owner())
		}, -1, func(storetest.Call) storetest.Action { return storetest.Fail(nil) })
		time.Sleep(ttl)
		require.NoError(t, open(t, b, "u").Forget(t.Context()))
		remove()
		root, err := tenant.Key().Root(filepath.Join(f.root, "node-1"))
		require.NoError(t, err)
		time.Sleep(3 * time.Minute)
		left, _ := filepath.Glob(filepath.Join(root, "e*"))
		require.Empty(t, left)
	})
}
