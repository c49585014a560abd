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
		require.Empty(t, f.copies(tenant.Key()))
		require.Equal(t, []string{tenant.Key().FloorName(2)}, f.objects(tenant.Key()))
		root, err := tenant.Key().Root(filepath.Join(f.root, "node-1"))
		require.NoError(t, err)
		_, err = os.Stat(root)
		require.ErrorIs(t, err, os.ErrNotExist)
		require.NoError(t, tenant.Open(t.Context()))
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
				require.NoError(t, tenant.Open(t.Context()))
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
		require.Empty(t, f.copies(tenant.Key()))
	})
}

// However long a forget takes, its lease is kept: nobody is granted the tenant before the floor is set and the copies are gone.
func TestS6_AForgetThatTakesLongKeepsItsLease(t *testing.T) {
	const long = 4 * ttl
	for name, slow := range map[string]func(*fleet) (done func()){
		"the final snapshot":        func(f *fleet) func() { f.durable.SlowNext(storetest.OpPut, long); return func() {} },
		"the floor is slow":         func(f *fleet) func() { return f.leases.Slow(storetest.OpForget, 300*time.Millisecond) },
		"the floor cannot be set":   func(f *fleet) func() { return f.leases.Every(storetest.OpForget, storetest.Hang()) },
		"the copies are many":       func(f *fleet) func() { return f.durable.Slow(storetest.OpDeletePrefix, long) },
		"the copies cannot be gone": func(f *fleet) func() { return f.durable.Every(storetest.OpDeletePrefix, storetest.Hang()) },
		"the listing hangs":         func(f *fleet) func() { return f.durable.Every(storetest.OpList, storetest.Hang()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				n := f.start(rarely, func(c *actors.Config) { c.DurableTimeout = 2 * long })
				tenant := open(t, n, "u")
				appendKind(t, tenant, "1")
				done := slow(f)
				forgotten := make(chan error, 1)
				go func() { forgotten <- tenant.Forget(within(t, time.Hour)) }()
				for len(forgotten) == 0 {
					time.Sleep(50 * time.Millisecond)
					lease, _, err := f.leases.Inner().Read(t.Context(), tenant.Key())
					require.NoError(t, err)
					if !lease.End.After(time.Now()) { // released in this moment, by an order that is over
						synctestWait()
						require.Len(t, forgotten, 1, "the lease has run out under a forget")
						break
					}
				}
				done()
				if err := <-forgotten; err != nil {
					require.ErrorIs(t, err, messages.ErrUnknownOutcome)
				}
				require.Equal(t, []uint64{1}, f.grants(tenant.Key()))
			})
		})
	}
}

// A forget whose lease is lost in its middle ends, and says that it does not know.
func TestS6_AForgetThatLosesItsLeaseEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely)
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		f.durable.Every(storetest.OpDeletePrefix, storetest.Hang())
		forgotten := make(chan error, 1)
		go func() { forgotten <- tenant.Forget(within(t, time.Hour)) }()
		time.Sleep(renewEvery)
		require.NoError(t, f.leases.Inner().Release(t.Context(), tenant.Key(), n.Owner(), 1)) // by an operator, say
		time.Sleep(2 * renewEvery)
		require.Len(t, forgotten, 1, "whoever is granted the tenant now need not wait for it")
		require.ErrorIs(t, <-forgotten, messages.ErrUnknownOutcome)
		synctestWait()
		require.False(t, n.Has(tenant.Key()))
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
		require.NoError(t, tenant.Open(t.Context()))
		require.Empty(t, kinds(t, tenant), "nothing at or below the floor is restored")
		remove()
		time.Sleep(3 * time.Minute)
		for _, name := range f.copies(tenant.Key()) {
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
		require.Empty(t, f.copies(tenant.Key()))
		_, err := f.durable.Inner().PutIfAbsent(t.Context(), tenant.Key().ImageName(1, 7), []byte("late"))
		require.NoError(t, err)
		time.Sleep(2 * time.Minute) // nobody opens the tenant
		require.Empty(t, f.copies(tenant.Key()))
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
