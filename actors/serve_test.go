package actors_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

type ctxT = context.Context

func synctestWait() { synctest.Wait() }

func TestL3_BackgroundRenewalHoldsATenantOverManyTerms(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		tenant := open(t, f.start(), "u")
		for range 20 {
			time.Sleep(ttl)
			appendKind(t, tenant, "x")
		}
		require.Equal(t, []uint64{1}, f.grants(tenant.Key()))
		require.GreaterOrEqual(t, len(f.lifecycle(messages.LifecycleRenewed)), 100)
	})
}

func TestG1_D3_AnOutageOfTheLeaseStoreFencesAndARenewalResumes(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		f.leases.Down(nil)
		time.Sleep(ttl - margin - renewEvery)
		appendKind(t, tenant, "2") // up to its deadline it serves
		time.Sleep(renewEvery + 50*time.Millisecond)
		want := &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonExpiredLocally}
		_, err := tenant.Append(t.Context(), messages.Event{Kind: "3"})
		require.ErrorIs(t, err, want)
		_, err = tenant.Query(t.Context(), "SELECT 1")
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, tenant.Run(t.Context(), func(tx *ledgeractor.Tx) error { return nil }), want)
		f.leases.Up()
		time.Sleep(renewEvery)
		appendKind(t, tenant, "4")
		require.Equal(t, []string{"1", "2", "4"}, kinds(t, tenant))
		require.Equal(t, []uint64{1}, f.grants(tenant.Key()))
		require.Len(t, f.lifecycle(messages.LifecycleFenced), 1)
		require.Len(t, f.lifecycle(messages.LifecycleResumed), 1)
	})
}

func TestL1_LosingTheLeaseEndsTheActorForGood(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		a, b := f.start(), f.start()
		tenant := open(t, a, "u")
		appendKind(t, tenant, "saved")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		// The first node alone is cut off from the lease store.
		remove := f.leases.Add(func(c storetest.Call) bool {
			if c.Op == storetest.OpRenewMany {
				return c.Renewals[0].Owner == a.Owner()
			}
			return c.Owner == a.Owner()
		}, -1, func(storetest.Call) storetest.Action { return storetest.Fail(nil) })
		time.Sleep(ttl)
		next := open(t, b, "u")
		require.EqualValues(t, 2, epoch(t, next))
		remove()
		time.Sleep(2 * renewEvery)
		lost := f.lifecycle(messages.LifecycleLost)
		require.Len(t, lost, 1)
		require.Equal(t, a.Owner(), lost[0].Owner)
		list, err := a.Tenants(t.Context())
		require.NoError(t, err)
		require.Empty(t, list, "the node has forgotten it")
		_, err = tenant.Append(t.Context(), messages.Event{Kind: "x"})
		require.ErrorIs(t, err, messages.ErrHeld, "a reopen while another holds it")
		require.Equal(t, []string{"saved"}, kinds(t, next))
	})
}

func TestL4_PeriodicSnapshotsAreNumberedWithoutAGap(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		tenant := open(t, f.start(), "u")
		time.Sleep(snapEvery / 2) // so that no append meets a snapshot at the same instant
		for range 10 {
			appendKind(t, tenant, "x")
			time.Sleep(snapEvery)
		}
		taken := f.lifecycle(messages.LifecycleSnapshot)
		require.GreaterOrEqual(t, len(taken), 9)
		for i, e := range taken {
			require.EqualValues(t, i+1, e.Position.Snapshot)
		}
		n := len(taken)
		time.Sleep(10 * snapEvery)
		require.LessOrEqual(t, len(f.lifecycle(messages.LifecycleSnapshot)), n+1, "without writes there is nothing to save")
	})
}

func TestL6_SnapshotsAskedForTogetherRunOneAfterTheOther(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		tenant := open(t, f.start(), "u")
		appendKind(t, tenant, "x")
		f.durable.Slow(storetest.OpPut, 100*time.Millisecond)
		inFlight, most := 0, 0
		var mu sync.Mutex
		count := func(d int) { mu.Lock(); inFlight += d; most = max(most, inFlight); mu.Unlock() }
		f.durable.Before(storetest.OpPut, func(ctxT, storetest.Call) { count(1) })
		f.durable.After(storetest.OpPut, func(ctxT, storetest.Call, storetest.Result) { count(-1) })
		var wg sync.WaitGroup
		got := map[uint64]bool{}
		for range 5 {
			wg.Go(func() {
				m, err := tenant.Snapshot(t.Context())
				require.NoError(t, err)
				mu.Lock()
				got[m.Snapshot] = true
				mu.Unlock()
			})
		}
		wg.Wait()
		require.Equal(t, map[uint64]bool{1: true, 2: true, 3: true, 4: true, 5: true}, got)
		require.Equal(t, 1, most)
	})
}

func TestS7_ASlowStoreHoldsUpNeitherRenewalsNorWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		tenant := open(t, f.start(func(c *actors.Config) { c.DurableTimeout = 10 * time.Minute }), "u")
		appendKind(t, tenant, "before")
		f.durable.Slow(storetest.OpPut, 4*ttl)
		done := make(chan messages.Manifest, 1)
		go func() {
			m, err := tenant.Snapshot(within(t, time.Hour))
			require.NoError(t, err)
			done <- m
		}()
		time.Sleep(time.Second)
		for range 12 {
			begun := time.Now()
			appendKind(t, tenant, "during")
			require.Less(t, time.Since(begun), 10*time.Millisecond)
			time.Sleep(time.Second)
		}
		m := <-done
		require.EqualValues(t, 1, m.Events, "exactly the writes committed before it began")
		require.Equal(t, []uint64{1}, f.grants(tenant.Key()))
		require.Empty(t, f.lifecycle(messages.LifecycleFenced))
	})
}

func TestS4_SomebodyElsesBytesAtThisEpochFenceTheHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		f.durable.ConflictNext("snap-000001.db", []byte("somebody else's"))
		_, err := tenant.Snapshot(t.Context())
		require.ErrorIs(t, err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonSlotTaken})
		// Nothing of that epoch is acknowledged after; the next use opens a new one.
		appendKind(t, tenant, "2")
		require.EqualValues(t, 2, epoch(t, tenant))
		require.Equal(t, []string{"2"}, kinds(t, tenant))
	})
}

func TestS9_OldCopiesGoOnlyAfterALaterRenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		tenant := open(t, f.start(func(c *actors.Config) { c.SnapshotEvery = time.Hour }), "u")
		appendKind(t, tenant, "1")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		f.leases.Every(storetest.OpRenewMany, storetest.Fail(nil))
		appendKind(t, tenant, "2")
		_, err = tenant.Snapshot(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Contains(t, f.objects(tenant.Key()), tenant.Key().ImageName(1, 1), "no renewal has succeeded since")
		f.leases.Clear()
		time.Sleep(2 * renewEvery)
		require.NotContains(t, f.objects(tenant.Key()), tenant.Key().ImageName(1, 1))
		require.Contains(t, f.objects(tenant.Key()), tenant.Key().ImageName(1, 2))
		require.Contains(t, f.objects(tenant.Key()), tenant.Key().BaseName(1), "never its own base")
	})
}

func TestL5_LifecycleEventsCarryNoPersonalData(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "the-subject")
		_, err := tenant.Append(t.Context(), messages.Event{Kind: "k", IdemKey: "the-idem-key", Actor: "the-actor", Payload: json.RawMessage(`{"x":"the-payload"}`)})
		require.NoError(t, err)
		_, err = tenant.Query(t.Context(), "SELECT 'the-sql'")
		require.NoError(t, err)
		require.NoError(t, tenant.Handoff(t.Context()))
		synctestWait()
		data, err := json.Marshal(f.events)
		require.NoError(t, err)
		for _, secret := range []string{"idp.example", "the-"} {
			require.NotContains(t, string(data), secret)
		}
		for _, kind := range []messages.LifecycleKind{messages.LifecycleAcquired, messages.LifecycleRestored, messages.LifecycleServing,
			messages.LifecycleDraining, messages.LifecycleSnapshot, messages.LifecycleReleased, messages.LifecycleClosed} {
			require.NotEmpty(t, f.lifecycle(kind), "%s", kind)
		}
		for _, e := range f.events {
			require.Equal(t, tenant.Key(), e.Key)
			require.EqualValues(t, 1, e.Epoch, "%s", e.Kind)
		}
	})
}

func TestIdleTenantsCloseByHandoffAndOpenAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.IdleAfter = time.Minute })
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		time.Sleep(2 * time.Minute)
		list, err := n.Tenants(t.Context())
		require.NoError(t, err)
		require.Empty(t, list)
		appendKind(t, tenant, "2") // the handle stays valid
		require.Equal(t, []string{"1", "2"}, kinds(t, tenant))
		require.EqualValues(t, 2, epoch(t, tenant))
	})
}

func TestTheLeastRecentlyUsedTenantMakesRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.MaxOpen = 10 })
		for i := range 50 {
			tenant := open(t, n, string(rune('A'+i)))
			appendKind(t, tenant, "x")
			time.Sleep(time.Millisecond)
			list, err := n.Tenants(t.Context())
			require.NoError(t, err)
			require.LessOrEqual(t, len(list), 10)
		}
		for i := range 50 {
			require.Equal(t, []string{"x"}, kinds(t, open(t, n, string(rune('A'+i)))))
		}
	})
}

func TestTheOneThatWasUsedSinceIsNotTheOneThatMakesRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.MaxOpen = 3 })
		tenants := map[string]*actors.Tenant{}
		use := func(subject string) {
			time.Sleep(time.Millisecond)
			if tenants[subject] == nil {
				tenants[subject] = open(t, n, subject)
			}
			appendKind(t, tenants[subject], "x")
		}
		for _, subject := range []string{"a", "b", "c", "a", "d", "c", "e"} { // d evicts b, and e evicts a
			use(subject)
		}
		var want, got []messages.Key
		for _, subject := range []string{"c", "d", "e"} {
			want = append(want, tenants[subject].Key())
		}
		list, err := n.Tenants(t.Context())
		require.NoError(t, err)
		for _, s := range list {
			got = append(got, s.Key)
		}
		require.ElementsMatch(t, want, got)
	})
}

func TestWhenEveryTenantIsBusyAnOpenIsRefusedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.MaxOpen = 1 })
		tenant := open(t, n, "a")
		busy, free := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- tenant.Run(t.Context(), func(*ledgeractor.Tx) error { close(busy); <-free; return nil })
		}()
		<-busy
		_, err := tryOpen(t.Context(), n, tenantID(t, "b"))
		require.ErrorIs(t, err, messages.ErrOverloaded)
		require.NotZero(t, messages.AsError(err).RetryAfter)
		close(free)
		require.NoError(t, <-done)
		open(t, n, "b")
	})
}

func TestBeyondTheBoundRequestsAreRefusedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.MaxTenantRequests = 2 })
		tenant := open(t, n, "a")
		busy, free := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			require.NoError(t, tenant.Run(t.Context(), func(*ledgeractor.Tx) error { close(busy); <-free; return nil }))
		})
		<-busy
		wg.Go(func() { appendKind(t, tenant, "queued") })
		synctest.Wait()
		_, err := tenant.Append(t.Context(), messages.Event{Kind: "too much"})
		require.ErrorIs(t, err, messages.ErrOverloaded)
		close(free)
		wg.Wait()
		require.Equal(t, "queued", strings.Join(kinds(t, tenant), ","))
	})
}

func TestT1_AConsumerCannotCloseTheLedger(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		tenant := open(t, f.start(), "u")
		var kept *ledgeractor.Tx
		require.NoError(t, tenant.Run(t.Context(), func(tx *ledgeractor.Tx) error {
			kept = tx
			_, closes := any(tx).(interface{ Close() error })
			require.False(t, closes)
			return nil
		}))
		_, err := kept.ExecContext(t.Context(), "CREATE TABLE late (x)")
		require.Error(t, err)
		appendKind(t, tenant, "still open")
	})
}

func TestAnOutageOfTheLeaseStoreIsMetWithASnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		never := func(c *actors.Config) { c.SnapshotEvery = time.Hour }
		tenant := open(t, f.start(never), "u")
		appendKind(t, tenant, "1")
		f.leases.Down(nil)
		time.Sleep(renewEvery)
		appendKind(t, tenant, "2")
		time.Sleep(ttl) // the outage outlasts the lease
		f.leases.Up()
		time.Sleep(renewEvery)
		require.Equal(t, []string{"1", "2"}, kinds(t, open(t, f.start(never), "u")))
	})
}
