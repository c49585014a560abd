package actors_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/stores/storetest"
)

// TestS12_AnOutageLosesNothingThatWasAcknowledged: the engine is away for three TTLs under load.
func TestS12_AnOutageLosesNothingThatWasAcknowledged(t *testing.T) {
	type store interface {
		Down(error)
		Freeze()
		Up()
	}
	fail, hang := func(s store) { s.Down(nil) }, func(s store) { s.Freeze() }
	for name, outage := range map[string]struct {
		away    func(store)
		durable bool // is away too
	}{
		"the lease store refuses": {fail, false},
		"the lease store hangs":   {hang, false},
		"both refuse":             {fail, true},
		"both hang":               {hang, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				// The durable store's own timeout is longer than the whole outage: a call that hangs must not
				// be waited for.
				n := f.start(rarely, func(c *actors.Config) { c.DurableTimeout = time.Minute })
				tenant := open(t, n, "u")
				l := startLoad(t, tenant)
				time.Sleep(ttl)
				outage.away(f.leases)
				if outage.durable {
					outage.away(f.durable)
				}
				begun := time.Now()
				time.Sleep(3 * ttl)
				before, last := l.since()
				require.LessOrEqual(t, last.Sub(begun), ttl-margin, "the owner stopped at its fence")
				f.leases.Up()
				f.durable.Up()
				time.Sleep(ttl)
				after, _ := l.since()
				require.Greater(t, after, before, "served again within one TTL of the return")
				require.EqualValues(t, 2, epoch(t, tenant))
				l.requireAll(t, tenant)
				require.Equal(t, []messages.Code{messages.CodeFenced}, slices.Collect(maps.Keys(l.codes)), "refused, not lost track of")
			})
		})
	}
}

func TestS12_AnotherNodeFindsTheLastSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		a, b := f.start(rarely), f.start(rarely)
		l := startLoad(t, open(t, a, "u"))
		time.Sleep(ttl)
		remove := f.cutOff(a.Owner())
		time.Sleep(ttl + renewEvery)
		next := open(t, b, "u")
		require.EqualValues(t, 2, epoch(t, next))
		l.requireAll(t, next)
		require.Len(t, f.lifecycle(messages.LifecycleLastSnap), 1)
		remove()
		time.Sleep(ttl)
		require.Len(t, f.lifecycle(messages.LifecycleLost), 1)
		require.Len(t, f.lifecycle(messages.LifecycleLastSnap), 1, "a successor was faster: nothing more is tried")
		appendKind(t, next, "goes on")
		require.EqualValues(t, 2, epoch(t, next))
	})
}

func TestD3_AfterARenewalLifeGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely)
		tenant := open(t, n, "u")
		time.Sleep(renewEvery)
		// The fence closes 2 s after the grant, the lease ends 3 s after it.
		f.leases.Down(nil)
		appendKind(t, tenant, "1")
		time.Sleep(ttl - margin - renewEvery/2)
		require.Len(t, f.lifecycle(messages.LifecycleFenced), 1)
		f.leases.Up()
		time.Sleep(2 * renewEvery)
		require.Len(t, f.lifecycle(messages.LifecycleResumed), 1)
		appendKind(t, tenant, "2")
		require.EqualValues(t, 1, epoch(t, tenant))
		require.NoError(t, tenant.Handoff(t.Context()))
		require.Equal(t, []string{"1", "2"}, kinds(t, open(t, f.start(rarely), "u")))
		require.Equal(t, []uint64{1, 2}, f.grants(tenant.Key()))
	})
}

// fenced is a tenant with one write that only its last snapshot can save, just before its fence closes.
// Its lease store is away.
func fenced(t *testing.T, f *fleet, n *actors.Node) *actors.Tenant {
	t.Helper()
	tenant := open(t, n, "u")
	appendKind(t, tenant, "0")
	_, err := tenant.Snapshot(t.Context())
	require.NoError(t, err)
	time.Sleep(renewEvery / 2)
	f.cutOff(n.Owner())
	// The precaution of the first failed renewal holds nothing new.
	time.Sleep(ttl - margin - renewEvery)
	appendKind(t, tenant, "1")
	require.Empty(t, f.lifecycle(messages.LifecycleFenced))
	return tenant
}

// toTheFence lets the fence close.
func toTheFence(t *testing.T, f *fleet) {
	t.Helper()
	for range 100 {
		if len(f.lifecycle(messages.LifecycleFenced)) > 0 {
			synctest.Wait()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the fence did not close")
}

func TestS9_TheLastSnapshotProvesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely)
		tenant := fenced(t, f, n)
		toTheFence(t, f)
		time.Sleep(renewEvery)
		last := f.lifecycle(messages.LifecycleLastSnap)
		require.Len(t, last, 1)
		require.EqualValues(t, 2, last[0].LastSeq)
		require.Equal(t, messages.CodeFenced, last[0].Code)
		s, err := tenant.Status(t.Context())
		require.NoError(t, err)
		require.Less(t, s.Snapshot, last[0].Position.Snapshot, "it does not count")
		require.True(t, s.Unsaved)
		require.ErrorIs(t, tenant.Handoff(within(t, time.Second)), messages.ErrFenced, "no handoff concludes from it")
		require.Contains(t, f.objects(tenant.Key()), tenant.Key().ImageName(1, 1), "nothing is deleted on its strength")
		time.Sleep(ttl)
		require.Len(t, f.lifecycle(messages.LifecycleLastSnap), 1, "once is enough")
	})
}

// With that rule left out it counts: the test above can fail.
func TestPlantedConfirmWithoutFenceLetsTheLastSnapshotCount(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely, func(c *actors.Config) { c.Planted = planted.Of(planted.ConfirmWithoutFence) })
		tenant := fenced(t, f, n)
		toTheFence(t, f)
		time.Sleep(renewEvery)
		s, err := tenant.Status(t.Context())
		require.NoError(t, err)
		require.False(t, s.Unsaved)
		require.Empty(t, f.lifecycle(messages.LifecycleLastSnap))
	})
}

// TestS2_ALastSnapshotThatComesTooLateHarmsNobody: the holder is away from both stores until its successor
// serves, and reaches the durable store first, so that it cannot know that it was succeeded.
func TestS2_ALastSnapshotThatComesTooLateHarmsNobody(t *testing.T) {
	for name, faults := range map[string]planted.Set{
		"it meets the seal":                 0,
		"without seals, no pin leads to it": planted.Of(planted.NoSeal),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				var cut atomic.Bool
				a := f.start(rarely, func(c *actors.Config) { c.Durable = partition{f.durable, &cut} })
				tenant := fenced(t, f, a)
				cut.Store(true)
				time.Sleep(ttl)
				next := open(t, f.start(rarely, func(c *actors.Config) { c.Planted = faults }), "u")
				appendKind(t, next, "2")
				cut.Store(false)
				time.Sleep(ttl)
				fences, landed := f.lifecycle(messages.LifecycleFenced), f.lifecycle(messages.LifecycleLastSnap)
				if faults == 0 {
					require.Empty(t, landed)
					require.Equal(t, messages.ReasonSlotTaken, fences[len(fences)-1].Reason)
					list, err := a.Tenants(t.Context())
					require.NoError(t, err)
					require.Empty(t, list, "it has ended at once")
				} else {
					require.Len(t, landed, 1)
				}
				require.Equal(t, []string{"0", "2"}, kinds(t, next))
				require.NoError(t, next.Abandon(t.Context())) // so that its successor has to follow its pin
				require.Equal(t, []string{"0"}, kinds(t, open(t, f.start(rarely), "u")))
				require.Equal(t, []uint64{1, 2, 3}, f.grants(tenant.Key()))
			})
		})
	}
}

// A transaction that waits for something holds up neither a drain's end nor the last snapshot.
func TestS12_ADrainAndATransactionThatHangDoNotHoldTheLastSnapshotUp(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely)
		tenant := fenced(t, f, n)
		running, free := make(chan struct{}), make(chan struct{})
		var calls sync.WaitGroup
		calls.Go(func() {
			err := tenant.Run(within(t, time.Hour), func(tx *ledgeractor.Tx) error {
				_, err := tx.Append(tx.Context(), messages.Event{Kind: "too late"})
				close(running)
				<-free
				return err
			})
			require.ErrorIs(t, err, messages.ErrFenced)
		})
		<-running
		// An ordinary cut would wait for it.
		calls.Go(func() { _, err := tenant.Snapshot(within(t, time.Hour)); require.Error(t, err) })
		synctest.Wait()
		calls.Go(func() { require.Error(t, tenant.Handoff(within(t, time.Hour))) })
		toTheFence(t, f)
		require.Len(t, f.lifecycle(messages.LifecycleDraining), 1)
		time.Sleep(ttl)
		require.Equal(t, []string{"0", "1"}, kinds(t, open(t, f.start(rarely), "u")))
		close(free)
		calls.Wait()
	})
}

// TestNoLastSnapshotAfterTheHolderHasGivenUp: each of these ends it, although it is being tried.
func TestNoLastSnapshotAfterTheHolderHasGivenUp(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, f *fleet, n *actors.Node, tenant *actors.Tenant){
		"abandon": func(t *testing.T, f *fleet, _ *actors.Node, tenant *actors.Tenant) {
			require.NoError(t, tenant.Abandon(within(t, time.Minute)))
		},
		"a kill": func(t *testing.T, _ *fleet, n *actors.Node, _ *actors.Tenant) { require.NoError(t, n.Abort()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				n := f.start(rarely)
				tenant := fenced(t, f, n)
				f.durable.Down(nil)
				toTheFence(t, f)
				time.Sleep(renewEvery)
				before := f.objects(tenant.Key())
				end(t, f, n, tenant)
				f.durable.Up()
				time.Sleep(ttl)
				require.Empty(t, f.lifecycle(messages.LifecycleLastSnap))
				require.Equal(t, before, f.objects(tenant.Key()))
			})
		})
	}
}

func TestACorruptLedgerHasNoLastSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely)
		tenant := fenced(t, f, n)
		before := f.objects(tenant.Key())
		path := filepath.Join(f.root, n.Name(), "orgs", "acme", "tenants", string(tenant.Key().Tenant), "e00000001", "ledger.db")
		for _, file := range []string{path, path + "-wal"} {
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte{0xee}, int(info.Size())), 0o600))
		}
		toTheFence(t, f)
		time.Sleep(ttl)
		require.Len(t, f.lifecycle(messages.LifecycleCorrupt), 1)
		require.Empty(t, f.lifecycle(messages.LifecycleLastSnap))
		require.Equal(t, before, f.objects(tenant.Key()))
	})
}

// A ledger that turns corrupt while it is served is abandoned: the durable copy comes back at a new epoch, and the file is kept.
func TestW1_ALedgerThatTurnsCorruptIsAbandoned(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely)
		tenant := open(t, n, "u")
		appendKind(t, tenant, "saved")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		before := f.objects(tenant.Key())
		appendKind(t, tenant, "not saved")
		path := filepath.Join(f.tenantRoot(n, tenant.Key()), "e00000001", "ledger.db")
		for _, file := range []string{path, path + "-wal"} {
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte{0xee}, int(info.Size())), 0o600))
		}
		_, err = tenant.Snapshot(t.Context())
		require.ErrorIs(t, err, messages.ErrCorrupt)
		synctest.Wait()
		require.Len(t, f.lifecycle(messages.LifecycleCorrupt), 1)
		require.Equal(t, before, f.objects(tenant.Key()), "nothing of it is published")
		require.Equal(t, []string{"saved"}, kinds(t, tenant))
		require.EqualValues(t, 2, epoch(t, tenant))
		appendKind(t, tenant, "goes on")
		require.Contains(t, f.local(n, tenant.Key()), "aside/e00000001", "somebody may rescue something")
	})
}

// A forget that was asked for while the fence was closed has no effect, and stands in nobody's way.
func TestD11_AForgetThatCouldNotBeginCostsNoAcknowledgedWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely)
		tenant := fenced(t, f, n)
		toTheFence(t, f)
		require.ErrorIs(t, tenant.Forget(within(t, time.Minute)), messages.ErrFenced)
		time.Sleep(ttl)
		require.Equal(t, []string{"0", "1"}, kinds(t, open(t, f.start(rarely), "u")))
	})
}

// TestK5_NoTimeLimitEndsTheSavingOfTheOnlyCopy: the images cannot be put for much longer than a lease, and nobody else
// wants the tenant.
func TestK5_NoTimeLimitEndsTheSavingOfTheOnlyCopy(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely)
		tenant := fenced(t, f, n)
		f.durable.Down(nil)
		time.Sleep(2 * ttl)
		f.leases.Clear()
		time.Sleep(renewEvery)
		require.Len(t, f.lifecycle(messages.LifecycleLost), 1)
		_, err := tenant.Append(within(t, time.Second), messages.Event{Kind: "waits"})
		require.ErrorIs(t, err, messages.ErrDeadlineExceeded, "nothing is done meanwhile")
		time.Sleep(20 * ttl)
		list, err := n.Tenants(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, actors.StateClosing, list[0].State)
		alarms := n.Alarms()
		require.Len(t, alarms, 1, "somebody must look")
		require.Equal(t, tenant.Key().String(), alarms[0].Err.Key)
		f.durable.Up()
		require.Equal(t, []string{"0", "1"}, kinds(t, open(t, n, "u")))
		require.Empty(t, n.Alarms())
		require.Empty(t, f.lifecycle(messages.LifecycleSetAside))
		require.Equal(t, []uint64{1, 2}, f.grants(tenant.Key()))
	})
}

// TestK5_AnOutageWithASlowUploadLosesNothing: one node, nothing dies. An upload takes longer than the outage of the lease
// store and the lease together.
func TestK5_AnOutageWithASlowUploadLosesNothing(t *testing.T) {
	for name, every := range map[string]time.Duration{"no upload was seen before": time.Hour, "uploads go on all the time": snapEvery} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				n := f.start(func(c *actors.Config) { c.SnapshotEvery, c.DurableTimeout = every, time.Minute })
				tenant := open(t, n, "u")
				l := startLoad(t, tenant)
				f.durable.Slow(storetest.OpPut, 3*ttl)
				time.Sleep(4 * ttl)
				f.leases.Down(nil)
				time.Sleep(2 * ttl)
				before, _ := l.since()
				f.leases.Up()
				after := before
				for begun := time.Now(); after == before && time.Since(begun) < 100*ttl; after, _ = l.since() {
					time.Sleep(ttl)
				}
				require.Greater(t, after, before, "served again")
				require.EqualValues(t, 2, epoch(t, tenant))
				l.requireAll(t, tenant)
			})
		})
	}
}

// A successor that this node has not met in the store yet ends the waiting too: callers are told who serves.
func TestT2_WhoWaitsForALastSnapshotLearnsOfASuccessor(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		var cut atomic.Bool
		a := f.start(rarely, func(c *actors.Config) { c.Durable = partition{f.durable, &cut} })
		tenant := fenced(t, f, a)
		cut.Store(true)
		time.Sleep(ttl)
		f.leases.Clear()
		time.Sleep(renewEvery) // refused: the lease has run out, and names nobody else
		require.Len(t, f.lifecycle(messages.LifecycleLost), 1)
		next := open(t, f.start(rarely), "u")
		_, err := tenant.Append(within(t, ttl), messages.Event{Kind: "elsewhere"})
		require.ErrorIs(t, err, messages.ErrHeld)
		require.Equal(t, []string{"0"}, kinds(t, next), "the declared loss")
		require.Len(t, f.lifecycle(messages.LifecycleSetAside), 1)
		require.Equal(t, []string{"0", "1"}, f.asideKinds(a, tenant.Key(), "e00000001"), "and an operator can get at it")
		require.Empty(t, a.Alarms())
	})
}
