package actors_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestT1_ConcurrentOpensShareOneActor(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { appendKind(t, open(t, n, "u"), "x") })
		}
		wg.Wait()
		tenant := open(t, n, "u")
		require.Equal(t, []uint64{1}, f.grants(tenant.Key()))
		s, err := tenant.Status(t.Context())
		require.NoError(t, err)
		require.True(t, s.From.IsEmpty(), "the first epoch is restored from nothing")
		require.Len(t, kinds(t, tenant), 50)
		require.Len(t, f.lifecycle(messages.LifecycleServing), 1)
	})
}

func TestT2_ATenantThatAnotherNodeHoldsIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		a, b := f.start(), f.start()
		tenant := open(t, a, "u")
		before := len(f.events)
		_, err := tryOpen(t.Context(), b, tenantID(t, "u"))
		var e *messages.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, messages.CodeHeld, e.Code)
		require.Equal(t, a.Owner(), e.Owner)
		require.EqualValues(t, 1, e.Epoch)
		_, statErr := os.Stat(filepath.Join(f.root, "node-2", "orgs"))
		require.ErrorIs(t, statErr, os.ErrNotExist, "the refused node creates no file")
		for _, e := range f.events[before:] {
			require.NotEqual(t, b.Owner(), e.Owner, "the refused node emits no event")
		}
		appendKind(t, tenant, "still served")
	})
}

func TestT3_BadIDsAreRefusedBeforeAnythingIsTouched(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		good := tenantID(t, "u")
		synctestWait() // the first sweep
		calls := 0
		f.leases.Observe(func(storetest.Event) { calls++ })
		for _, bad := range []struct{ org, id string }{
			{"", string(good)}, {"ACME", string(good)}, {"-a", string(good)}, {"a_b", string(good)}, {"a/b", string(good)}, {"..", string(good)},
			{"a b", string(good)}, {"acme\n", string(good)}, {strings.Repeat("a", 64), string(good)},
			{"acme", ""}, {"acme", string(good[:33])}, {"acme", string(good) + "0"}, {"acme", "t-" + strings.Repeat("g", 32)}, {"acme", string(good) + "\n"},
		} {
			_, err := n.Tenant(t.Context(), messages.OrgID(bad.org), messages.TenantID(bad.id))
			require.ErrorIs(t, err, messages.ErrInvalidID, "%q %q", bad.org, bad.id)
		}
		require.Zero(t, calls)
	})
}

func TestT4_TwoTenantsShareNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		a, b := open(t, n, "a"), open(t, n, "b")
		appendKind(t, a, "of a", "of a")
		appendKind(t, b, "of b")
		require.NoError(t, a.Handoff(t.Context()))
		require.EqualValues(t, 2, epoch(t, open(t, n, "a")))
		require.EqualValues(t, 1, epoch(t, b))
		require.Equal(t, []string{"of a", "of a"}, kinds(t, a))
		require.Equal(t, []string{"of b"}, kinds(t, b))
		res, err := b.Query(t.Context(), "SELECT DISTINCT tenant_id FROM events")
		require.NoError(t, err)
		require.Equal(t, [][]any{{string(b.Key().Tenant)}}, res.Rows)
	})
}

func TestD14_ARestartedNodeIsNotTakenForItsPredecessor(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		sameName := func(c *actors.Config) { c.NodeName, c.StateRoot = "n", filepath.Join(f.root, "n") }
		first := f.start(sameName)
		tenant := open(t, first, "u")
		appendKind(t, tenant, "kept")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		require.NoError(t, first.Abort())
		second := f.start(sameName)
		require.NotEqual(t, first.Owner(), second.Owner())
		begun := time.Now()
		again := open(t, second, "u") // waits out its dead predecessor's lease instead of refusing
		require.LessOrEqual(t, time.Since(begun), ttl+renewEvery)
		require.EqualValues(t, 2, epoch(t, again))
		require.Equal(t, []string{"kept"}, kinds(t, again))
	})
}

func TestD14_NothingIsAcknowledgedBeforeTheBaseIsPinned(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		reached, release := f.durable.GateNext(storetest.OpPut)
		done := make(chan error, 1)
		go func() {
			tenant, err := tryOpen(t.Context(), n, tenantID(t, "u"))
			if err == nil {
				_, err = tenant.Append(t.Context(), messages.Event{Kind: "x"})
			}
			done <- err
		}()
		<-reached
		time.Sleep(time.Second)
		select {
		case err := <-done:
			t.Fatal("acknowledged before the pin", err)
		default:
		}
		release()
		require.NoError(t, <-done)
	})
}

func TestL2_S5_AFailedVerificationReleasesAndNamesTheObject(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		appendKind(t, tenant, "x")
		require.NoError(t, tenant.Handoff(t.Context()))
		image := tenant.Key().ImageName(1, 1)
		path := filepath.Join(f.root, "durable", filepath.FromSlash(image))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data[:len(data)/2], 0o600))
		_, err = tryOpen(t.Context(), n, tenantID(t, "u"))
		var e *messages.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, messages.CodeCorrupt, e.Code)
		require.Equal(t, image, e.Object)
		lease, _, err := f.leases.Inner().Read(t.Context(), tenant.Key())
		require.NoError(t, err)
		require.False(t, lease.End.After(time.Now()), "the lease was handed back")
		require.NotContains(t, strings.Join(f.objects(tenant.Key()), " "), "e00000002/base.json", "nothing was pinned")
		_, err = tryOpen(t.Context(), n, tenantID(t, "u"))
		require.ErrorIs(t, err, messages.ErrCorrupt)
		require.Equal(t, []uint64{1, 2}, f.grants(tenant.Key()), "a retry at once costs no epoch")
		time.Sleep(time.Second)
		// The operator puts the image right: the tenant opens again, with everything.
		require.NoError(t, os.WriteFile(path, data, 0o600))
		require.Equal(t, []string{"x"}, kinds(t, open(t, n, "u")))
	})
}

func TestS8_LocalFilesOfAnEarlierOwnershipAreNeverServed(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		sameRoot := func(c *actors.Config) { c.NodeName, c.StateRoot = "n", filepath.Join(f.root, "n") }
		n := f.start(sameRoot)
		tenant := open(t, n, "u")
		appendKind(t, tenant, "saved")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		appendKind(t, tenant, "only in the local file")
		require.NoError(t, n.Abort())
		require.Equal(t, []string{"saved"}, kinds(t, open(t, f.start(sameRoot), "u")))
	})
}

func TestS1_ARestoreMayTakeLongerThanALease(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		a := f.start()
		tenant := open(t, a, "u")
		appendKind(t, tenant, "x")
		require.NoError(t, a.Shutdown(t.Context()))
		b := f.start(func(c *actors.Config) { c.DurableTimeout = time.Minute })
		f.durable.SlowNext(storetest.OpGet, 4*ttl)
		again := open(t, b, "u")
		require.EqualValues(t, 2, epoch(t, again), "renewals ran during the restore")
		require.Equal(t, []string{"x"}, kinds(t, again))
	})
}

func TestAStateRootIsForOneNode(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		cfg := f.config()
		cfg.StateRoot = filepath.Join(f.root, "node-1")
		_, err := actors.Start(t.Context(), cfg)
		require.ErrorIs(t, err, messages.ErrHeld)
		require.NoError(t, n.Abort())
		again, err := actors.Start(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, again.Shutdown(t.Context()))
	})
}
