package actors_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// requireReleased fails unless the store lists the tenant's lease as ended.
func requireReleased(t *testing.T, f *fleet, key messages.Key) {
	t.Helper()
	lease, _, err := f.leases.Inner().Read(t.Context(), key)
	require.NoError(t, err)
	require.False(t, lease.End.After(time.Now()), "the next owner has to wait out a lease that nobody uses")
}

func TestH7_AShutdownHandsBackTheLeaseOfATenantThatOpens(t *testing.T) {
	for name, gate := range map[string]func(f *fleet) (<-chan struct{}, func()){
		"while it restores": func(f *fleet) (<-chan struct{}, func()) { return f.durable.GateNext(storetest.OpList) },
		"while it acquires": func(f *fleet) (<-chan struct{}, func()) {
			reached := make(chan struct{})
			f.leases.AfterNext(storetest.OpAcquire, func(ctxT, storetest.Call, storetest.Result) {
				close(reached)
				time.Sleep(50 * time.Millisecond)
			})
			return reached, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				n := f.start()
				reached, release := gate(f)
				defer release()
				opened := make(chan error, 1)
				go func() {
					_, err := tryOpen(within(t, time.Minute), n, tenantID(t, "u"))
					opened <- err
				}()
				<-reached
				f.leases.SlowNext(storetest.OpRelease, 200*time.Millisecond)
				require.NoError(t, n.Shutdown(within(t, time.Minute)))
				require.ErrorIs(t, <-opened, messages.ErrDraining)
				requireReleased(t, f, messages.Key{Org: "acme", Tenant: tenantID(t, "u")})
			})
		})
	}
}

func TestH7_AShutdownWaitsForAHandoffThatIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.SnapshotEvery, c.DurableTimeout = time.Hour, time.Minute })
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		reached, release := f.durable.GateNext(storetest.OpPut)
		handed, down := make(chan error, 1), make(chan error, 1)
		go func() { handed <- tenant.Handoff(within(t, time.Minute)) }()
		<-reached
		go func() { down <- n.Shutdown(within(t, time.Minute)) }()
		time.Sleep(time.Second)
		release()
		require.NoError(t, <-handed)
		require.NoError(t, <-down)
		require.Equal(t, []string{"1"}, kinds(t, open(t, f.start(), "u")))
	})
}

func TestH7_AShutdownHandsOffWhatAnEarlierHandoffCouldNot(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.SnapshotEvery = time.Hour })
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		reached, release := f.durable.GateNext(storetest.OpPut)
		defer release()
		handed, down := make(chan error, 1), make(chan error, 1)
		go func() { handed <- tenant.Handoff(within(t, time.Second)) }()
		<-reached
		go func() { down <- n.Shutdown(within(t, time.Minute)) }()
		require.ErrorIs(t, <-handed, messages.ErrDeadlineExceeded)
		require.NoError(t, <-down)
		require.Equal(t, []string{"1"}, kinds(t, open(t, f.start(), "u")))
	})
}

func TestH7_AShutdownWaitsForWhatIsClosing(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		left, gone := open(t, n, "left"), open(t, n, "gone")
		appendKind(t, left, "1")
		appendKind(t, gone, "1")
		_, err := gone.Snapshot(t.Context())
		require.NoError(t, err)
		f.leases.Slow(storetest.OpRelease, 200*time.Millisecond)
		f.durable.Slow(storetest.OpDeletePrefix, time.Second)
		abandoned, forgotten := make(chan error, 1), make(chan error, 1)
		go func() { abandoned <- left.Abandon(within(t, time.Minute)) }()
		go func() { forgotten <- gone.Forget(within(t, time.Minute)) }()
		synctestWait()
		require.NoError(t, n.Shutdown(within(t, time.Minute)))
		require.NoError(t, <-abandoned)
		require.NoError(t, <-forgotten)
		requireReleased(t, f, left.Key())
		requireReleased(t, f, gone.Key())
		require.Empty(t, f.copies(gone.Key()))
	})
}

func TestAbortDoesNotWaitForApplicationCode(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		busy, free := make(chan struct{}), make(chan struct{})
		defer close(free)
		done := make(chan error, 1)
		go func() {
			done <- tenant.Run(within(t, time.Hour), func(*ledgeractor.Tx) error { close(busy); <-free; return nil })
		}()
		<-busy
		begun := time.Now()
		require.NoError(t, n.Abort())
		require.Error(t, <-done)
		require.Less(t, time.Since(begun), time.Second)
	})
}

// deaf makes the next put of the durable store heed neither its context nor anything else, as a hung disk would.
func deaf(f *fleet) (reached <-chan struct{}, release func()) {
	hangs, gate := make(chan struct{}), make(chan struct{})
	f.durable.BeforeNext(storetest.OpPut, func(ctxT, storetest.Call) { close(hangs); <-gate })
	return hangs, func() { close(gate) }
}

func TestH7_AShutdownReturnsAlthoughAStoreHeedsNoDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.SnapshotEvery = time.Hour })
		stuck := open(t, n, "stuck")
		appendKind(t, stuck, "1")
		_, release := deaf(f)
		begun := time.Now()
		err := n.Shutdown(within(t, time.Second))
		require.ErrorIs(t, err, messages.ErrDeadlineExceeded)
		require.ErrorContains(t, err, stuck.Key().String(), "what is still running is named")
		require.Less(t, time.Since(begun), 10*time.Second)
		require.ErrorIs(t, n.Shutdown(within(t, time.Second)), messages.ErrDeadlineExceeded)
		require.ErrorIs(t, n.Abort(), messages.ErrDeadlineExceeded)
		again := f.config()
		again.NodeName, again.StateRoot = "node-1", filepath.Join(f.root, "node-1")
		_, err = actors.Start(t.Context(), again)
		require.ErrorIs(t, err, messages.ErrHeld, "what still runs may write to the state root")

		release()
		<-n.Done()
		require.NoError(t, n.Shutdown(t.Context()))
		requireServes(t, f, again)
	})
}

// requireServes fails unless a node with this configuration starts and opens a tenant.
func requireServes(t *testing.T, f *fleet, cfg actors.Config) {
	t.Helper()
	n, err := actors.Start(t.Context(), cfg)
	require.NoError(t, err)
	f.t.Cleanup(func() { _ = n.Abort() })
	open(t, n, "another")
}

func TestAnAbortReturnsAlthoughAStoreHeedsNoDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		stuck, other := open(t, n, "stuck"), open(t, n, "other")
		reached, release := deaf(f)
		appendKind(t, stuck, "1")
		<-reached
		err := n.Abort()
		require.ErrorIs(t, err, messages.ErrDeadlineExceeded)
		require.ErrorContains(t, err, "background work")
		require.NotContains(t, err.Error(), other.Key().String(), "that one has ended")
		release()
		<-n.Done()
	})
}

// TestH7_AShutdownGoesOnTryingWhileTheFenceIsClosed: SIGTERM comes in the moment of a fence that has closed by itself. There
// is time left, and what is in the way may pass.
func TestH7_AShutdownGoesOnTryingWhileTheFenceIsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		passes func(f *fleet) // after a second
		ok     bool
	}{
		"the lease resumes":                     {func(f *fleet) { f.leases.Clear(); time.Sleep(ttl); f.durable.Up() }, true},
		"the last snapshot lands":               {func(f *fleet) { f.durable.Up() }, true},
		"both, and the lease is over":           {func(f *fleet) { time.Sleep(ttl); f.leases.Clear(); f.durable.Up() }, true},
		"the durable store comes back too late": {func(*fleet) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				n := f.start(rarely, func(c *actors.Config) { c.TTL, c.Margin, c.RenewEvery = 10*ttl, 9*ttl+ttl/2, ttl/4 })
				tenant := fencedLong(t, f, n)
				f.durable.Down(nil)
				if name == "both, and the lease is over" {
					time.Sleep(10 * ttl)
				}
				down := make(chan error, 1)
				go func() { down <- n.Shutdown(within(t, 20*time.Second)) }()
				time.Sleep(time.Second)
				require.Empty(t, down, "it has not given up")
				begun := time.Now()
				c.passes(f)
				err := <-down
				f.leases.Clear()
				f.durable.Up()
				if !c.ok {
					require.Error(t, err)
					require.Equal(t, []string{"1"}, f.fileKinds(filepath.Join(f.tenantRoot(n, tenant.Key()), "aside", "e00000001", "ledger.db")), "it is kept")
					return
				}
				require.NoError(t, err)
				require.Less(t, time.Since(begun), 15*time.Second)
				time.Sleep(10 * ttl)
				require.Equal(t, []string{"1"}, kinds(t, open(t, f.start(rarely), "u")))
			})
		})
	}
}

// fencedLong is a tenant with an unsaved write whose fence has closed by itself, while its lease goes on for long.
func fencedLong(t *testing.T, f *fleet, n *actors.Node) *actors.Tenant {
	t.Helper()
	tenant := open(t, n, "u")
	remove := f.durable.Every(storetest.OpPut, storetest.Fail(nil))
	f.cutOff(n.Owner())
	appendKind(t, tenant, "1")
	time.Sleep(ttl)
	toTheFence(t, f)
	remove()
	return tenant
}

// What is in the way of a shutdown's final snapshot may pass too.
func TestH7_AShutdownTriesItsFinalSnapshotAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely)
		appendKind(t, open(t, n, "u"), "1")
		f.durable.Down(nil)
		down := make(chan error, 1)
		go func() { down <- n.Shutdown(within(t, time.Minute)) }()
		time.Sleep(20 * time.Second)
		f.durable.Up()
		require.NoError(t, <-down)
		require.Equal(t, []string{"1"}, kinds(t, open(t, f.start(), "u")))
	})
}
