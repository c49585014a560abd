package actors_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestH1_AHandoffLosesNothingAndTheNextOwnerStartsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		a, b := f.start(), f.start()
		tenant := open(t, a, "u")
		var mu sync.Mutex
		acked := map[string]bool{}
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for w := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					kind := string(rune('a'+w)) + "-" + time.Duration(i).String()
					_, err := tenant.Append(t.Context(), messages.Event{Kind: kind})
					if err != nil {
						// After the handoff this node meets the next owner, or opens the tenant again.
						require.NotEqual(t, messages.CodeInternal, messages.CodeOf(err), "%v", err)
						return
					}
					mu.Lock()
					acked[kind] = true
					mu.Unlock()
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(50 * time.Millisecond)
		begun := time.Now()
		require.NoError(t, tenant.Handoff(t.Context()))
		close(stop)
		next, err := tryOpen(t.Context(), b, tenantID(t, "u"))
		if errors.Is(err, messages.ErrHeld) { // a writer has opened it again at the first node
			wg.Wait()
			require.NoError(t, tenant.Handoff(t.Context()))
			next, err = tryOpen(t.Context(), b, tenantID(t, "u"))
		}
		require.NoError(t, err)
		wg.Wait()
		require.Less(t, time.Since(begun), ttl, "nobody waited out a lease")
		have := map[string]bool{}
		for _, k := range kinds(t, next) {
			require.False(t, have[k], "twice: %s", k)
			have[k] = true
		}
		for k := range acked {
			require.True(t, have[k], "acknowledged and lost: %s", k)
		}
		released := f.lifecycle(messages.LifecycleReleased)
		require.True(t, *released[0].Flushed)
	})
}

// TestH1_WhatIsQueuedWhenTheHandoffComesIsAcknowledged: everything is saved by then, so that nothing but these writes keeps
// the tenant from its release.
func TestH1_WhatIsQueuedWhenTheHandoffComesIsAcknowledged(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		tenant := open(t, f.start(rarely), "u")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		var calls sync.WaitGroup
		running, free := make(chan struct{}), make(chan struct{})
		calls.Go(func() {
			require.NoError(t, tenant.Run(t.Context(), func(*ledgeractor.Tx) error { close(running); <-free; return nil }))
		})
		<-running
		for range 20 {
			calls.Go(func() {
				_, err := tenant.Append(t.Context(), messages.Event{Kind: "queued"})
				require.NoError(t, err)
			})
		}
		synctestWait()
		calls.Go(func() { require.NoError(t, tenant.Handoff(t.Context())) })
		synctestWait()
		close(free)
		calls.Wait()
		require.Len(t, kinds(t, open(t, f.start(), "u")), 20)
	})
}

func TestH2_ACrashLosesExactlyTheWritesAfterTheLastSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		a := f.start(func(c *actors.Config) { c.SnapshotEvery = time.Hour })
		tenant := open(t, a, "u")
		appendKind(t, tenant, "1", "2")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		appendKind(t, tenant, "3")
		require.NoError(t, a.Abort())
		b := f.start()
		_, err = tryOpen(t.Context(), b, tenantID(t, "u"))
		require.ErrorIs(t, err, messages.ErrHeld)
		time.Sleep(ttl)
		second := open(t, b, "u")
		require.Equal(t, []string{"1", "2"}, kinds(t, second))
		appendKind(t, second, "4")
		require.NoError(t, second.Handoff(t.Context()))
		third := open(t, f.start(), "u")
		require.Equal(t, []string{"1", "2", "4"}, kinds(t, third), "the lineage is whole for the owner after the next")
		require.Equal(t, []uint64{1, 2, 3}, f.grants(third.Key()))
	})
}

func TestH3_AHandoffWhoseFlushFailsKeepsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		f.durable.Down(nil)
		err := tenant.Handoff(within(t, 2*time.Second))
		require.Error(t, err)
		require.Contains(t, []messages.Code{messages.CodeUnavailable, messages.CodeDeadlineExceeded}, messages.CodeOf(err))
		appendKind(t, tenant, "2")
		require.EqualValues(t, 1, epoch(t, tenant), "it serves at the same epoch")
		f.durable.Up()
		require.NoError(t, tenant.Handoff(within(t, time.Minute)), "it can be tried again")
		require.Equal(t, []string{"1", "2"}, kinds(t, open(t, f.start(), "u")))
	})
}

func TestH4_AbandonReleasesAtOnceWithoutAFlush(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		a, b := f.start(), f.start()
		tenant := open(t, a, "u")
		appendKind(t, tenant, "never saved")
		puts := 0
		f.durable.Before(storetest.OpPut, func(_ ctxT, _ storetest.Call) { puts++ })
		require.NoError(t, tenant.Abandon(t.Context()))
		require.Zero(t, puts)
		released := f.lifecycle(messages.LifecycleReleased)
		require.Len(t, released, 1)
		require.False(t, *released[0].Flushed)
		require.Empty(t, kinds(t, open(t, b, "u")), "the next owner starts at once, without the tail")
	})
}

func TestH5_WhileDrainingEverythingNewIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		reached, release := f.durable.GateNext(storetest.OpPut)
		done := make(chan error, 1)
		go func() { done <- tenant.Handoff(t.Context()) }()
		<-reached
		_, err := tenant.Append(t.Context(), messages.Event{Kind: "2"})
		require.ErrorIs(t, err, messages.ErrDraining)
		_, err = tenant.Query(t.Context(), "SELECT 1")
		require.ErrorIs(t, err, messages.ErrDraining)
		require.ErrorIs(t, tenant.Run(t.Context(), func(*ledgeractor.Tx) error { return nil }), messages.ErrDraining)
		require.ErrorIs(t, tenant.Handoff(t.Context()), messages.ErrDraining)
		require.ErrorIs(t, tenant.Forget(t.Context()), messages.ErrDraining)
		require.ErrorIs(t, tenant.Abandon(t.Context()), messages.ErrDraining)
		_, err = tenant.Snapshot(t.Context())
		require.ErrorIs(t, err, messages.ErrDraining)
		_, err = tryOpen(t.Context(), n, tenantID(t, "u"))
		require.ErrorIs(t, err, messages.ErrDraining)
		release()
		require.NoError(t, <-done)
		require.Equal(t, []string{"1"}, kinds(t, tenant))
	})
}

func TestH7_ShutdownHandsEveryTenantOffAndReportsThoseThatFailed(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.HandoffParallel = 4 })
		subjects := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
		for _, s := range subjects {
			appendKind(t, open(t, n, s), "of "+s)
		}
		failing := open(t, n, "c").Key()
		f.durable.Add(func(c storetest.Call) bool {
			return c.Op == storetest.OpPut && len(c.Key) > 0 && c.Key[:len(failing.Prefix())] == failing.Prefix()
		}, -1, func(storetest.Call) storetest.Action { return storetest.Fail(nil) })
		err := n.Shutdown(within(t, 20*time.Second))
		require.Error(t, err)
		var e *messages.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, failing.String(), e.Key)
		_, err = tryOpen(t.Context(), n, tenantID(t, "new"))
		require.ErrorIs(t, err, messages.ErrDraining, "new opens are refused")
		f.durable.Clear()
		b := f.start()
		for _, s := range subjects {
			if s == "c" {
				continue
			}
			require.Equal(t, []string{"of " + s}, kinds(t, open(t, b, s)))
		}
	})
}

func TestD8_AHandoffWithTheLeaseStoreDownStopsTheHolderAllTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		a := f.start()
		tenant := open(t, a, "u")
		appendKind(t, tenant, "1")
		f.leases.Every(storetest.OpRelease, storetest.Fail(nil))
		require.NoError(t, tenant.Handoff(t.Context()))
		b := f.start()
		_, err := tryOpen(t.Context(), b, tenantID(t, "u"))
		require.ErrorIs(t, err, messages.ErrHeld)
		time.Sleep(ttl)
		require.Equal(t, []string{"1"}, kinds(t, open(t, b, "u")))
	})
}

func TestAHandoffGivenUpByItsCallerServesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		_, release := f.durable.GateNext(storetest.OpPut)
		defer release()
		require.ErrorIs(t, tenant.Handoff(within(t, 100*time.Millisecond)), messages.ErrDeadlineExceeded)
		synctestWait()
		appendKind(t, tenant, "2")
	})
}
