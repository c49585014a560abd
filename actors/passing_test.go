package actors_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestACallerWhoMeetsAnIdleHandoffWaitsForItsEndAndNoLonger(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) {
			c.IdleAfter, c.SnapshotEvery, c.DurableTimeout = time.Minute, time.Hour, time.Minute
		})
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		reached, release := f.durable.GateNext(storetest.OpPut)
		<-reached // the final snapshot of the idle handoff
		done := make(chan error, 1)
		go func() {
			_, err := tenant.Append(within(t, 10*time.Minute), messages.Event{Kind: "2"})
			done <- err
		}()
		time.Sleep(time.Second)
		release()
		begun := time.Now()
		require.NoError(t, <-done)
		require.Less(t, time.Since(begun), 5*time.Second, "it hung until the caller's own deadline")
		require.Equal(t, []string{"1", "2"}, kinds(t, tenant))
		require.EqualValues(t, 2, epoch(t, tenant))
	})
}

func TestH3_AHandoffGivenUpBehindALongTransactionKeepsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.SnapshotEvery = time.Hour })
		tenant := open(t, n, "u")
		appendKind(t, tenant, "acknowledged")
		busy, free := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- tenant.Run(within(t, time.Hour), func(tx *ledgeractor.Tx) error {
				close(busy)
				<-free
				_, err := tx.Append(tx.Context(), messages.Event{Kind: "long"})
				return err
			})
		}()
		<-busy
		require.ErrorIs(t, tenant.Handoff(within(t, time.Second)), messages.ErrDeadlineExceeded)
		time.Sleep(2 * time.Minute) // longer than the ledger's own call timeout
		close(free)
		require.NoError(t, <-done)
		synctestWait()
		require.EqualValues(t, 1, epoch(t, tenant))
		require.Equal(t, []string{"acknowledged", "long"}, kinds(t, tenant), "nothing that was acknowledged is lost")
	})
}

func TestH1_AShutdownWithoutADeadlineWaitsForALongTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.SnapshotEvery = time.Hour })
		tenant := open(t, n, "u")
		busy, free := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- tenant.Run(within(t, time.Hour), func(tx *ledgeractor.Tx) error {
				close(busy)
				<-free
				_, err := tx.Append(tx.Context(), messages.Event{Kind: "long"})
				return err
			})
		}()
		<-busy
		down := make(chan error, 1)
		go func() { down <- n.Shutdown(t.Context()) }()
		time.Sleep(2 * time.Minute)
		close(free)
		require.NoError(t, <-done)
		require.NoError(t, <-down)
		require.Equal(t, []string{"long"}, kinds(t, open(t, f.start(), "u")))
	})
}

func TestATenantThatGaveUpWhileDrainingDoesNotServeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.SnapshotEvery, c.StoreTimeout = time.Hour, 1500*time.Millisecond })
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		busy, free := make(chan struct{}), make(chan struct{})
		ran := make(chan error, 1)
		// The ledger is busy, so that the drain is still waiting for it when the slot turns out to be taken.
		_, err := tenant.Snapshot(t.Context()) // so that there is nothing to flush
		require.NoError(t, err)
		_, err = f.durable.Inner().PutIfAbsent(t.Context(), tenant.Key().ImageName(1, 2), []byte("somebody else's"))
		require.NoError(t, err)
		reached, release := f.durable.GateNext(storetest.OpPut)
		snap := make(chan error, 1)
		go func() { _, err := tenant.Snapshot(within(t, time.Minute)); snap <- err }()
		<-reached
		go func() {
			ran <- tenant.Run(within(t, time.Minute), func(*ledgeractor.Tx) error { close(busy); <-free; return nil })
		}()
		<-busy
		handed := make(chan error, 1)
		go func() { handed <- tenant.Handoff(within(t, time.Minute)) }()
		synctestWait()
		f.leases.SlowNext(storetest.OpRelease, 1400*time.Millisecond)
		release()
		require.ErrorIs(t, <-snap, messages.ErrFenced)
		close(free)
		require.Error(t, <-ran)
		synctestWait()
		list, err := n.Tenants(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, actors.StateClosing, list[0].State)
		_, open, err := n.Peek(t.Context(), tenant.Key())
		require.NoError(t, err)
		require.False(t, open, "its lease is being given back")
		require.Error(t, <-handed)
		require.Empty(t, f.lifecycle(messages.LifecycleUndrained))
	})
}

func TestASnapshotCutOffByAHandoffIsNotReportedAsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.SnapshotEvery, c.DurableTimeout = time.Hour, time.Minute })
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		reached, release := f.durable.GateNext(storetest.OpPut)
		defer release()
		type answer struct {
			m   messages.Manifest
			err error
		}
		done := make(chan answer, 1)
		go func() {
			m, err := tenant.Snapshot(within(t, time.Minute))
			done <- answer{m, err}
		}()
		<-reached
		require.NoError(t, tenant.Handoff(t.Context())) // everything is in snapshot 1 already
		got := <-done
		if got.err == nil {
			require.NotZero(t, got.m.Snapshot, "no error, and no snapshot")
		} else {
			require.ErrorIs(t, got.err, messages.ErrDraining)
		}
	})
}

func TestApplicationCodeThatFailsWithAnotherTenantsErrorIsNotRunAgain(t *testing.T) {
	for name, foreign := range map[string]error{
		"closed":   &messages.Error{Code: messages.CodeClosed, Key: "acme/t-00000000000000000000000000000000", Message: "elsewhere"},
		"draining": &messages.Error{Code: messages.CodeDraining, Message: "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				tenant := open(t, f.start(), "u")
				runs := 0
				err := tenant.Run(within(t, time.Minute), func(*ledgeractor.Tx) error { runs++; return foreign })
				require.ErrorIs(t, err, foreign)
				require.Equal(t, 1, runs)
			})
		})
	}
}

func TestATenantThatWasSlowToOpenIsNotIdleAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.IdleAfter, c.DurableTimeout = 3*time.Second, time.Minute })
		f.durable.SlowNext(storetest.OpList, 10*time.Second)
		tenant := open(t, n, "u")
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 1, epoch(t, tenant))
	})
}
