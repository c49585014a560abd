package actors_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

// whatCreatesNothing are the ways into a tenant, through its handle and over the wire, that do not create one.
func whatCreatesNothing(t *testing.T, n *actors.Node, tenant *actors.Tenant) map[string]func() error {
	ways := map[string]func() error{
		"query":    func() error { _, err := tenant.Query(t.Context(), "SELECT 1"); return err },
		"events":   func() error { _, _, err := tenant.Events(t.Context(), 0, 1); return err },
		"status":   func() error { _, err := tenant.Status(t.Context()); return err },
		"snapshot": func() error { _, err := tenant.Snapshot(t.Context()); return err },
		"handoff":  func() error { return tenant.Handoff(t.Context()) },
		"abandon":  func() error { return tenant.Abandon(t.Context()) },
		"forget":   func() error { return tenant.Forget(t.Context()) },
		"an unknown command": func() error {
			_, err := tenant.Call(t.Context(), "none", nil)
			return err
		},
	}
	for _, req := range []messages.Request{
		{Action: messages.ActionQuery, SQL: "SELECT 1"}, {Action: messages.ActionEvents}, {Action: messages.ActionSnapshot}, {Action: messages.ActionHandoff},
		{Action: messages.ActionAbandon}, {Action: messages.ActionForget}, {Action: messages.ActionCall, Command: "none"},
		{Action: messages.ActionQuery, SQL: "SELECT 1", Seen: messages.Seen{Epoch: 1, Seq: 1}},
	} {
		req.Version, req.Key = messages.WireVersion, tenant.Key()
		ways["request "+string(req.Action)] = func() error {
			if e := n.Do(t.Context(), &req).Error; e != nil {
				return e
			}
			return nil
		}
	}
	return ways
}

func TestQ2_ReadingCreatesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant, err := n.Tenant(t.Context(), "acme", tenantID(t, "u"))
		require.NoError(t, err, "a handle on what may be created")
		root, err := tenant.Key().Root(filepath.Join(f.root, "node-1"))
		require.NoError(t, err)
		synctestWait() // until the first sweep has looked for what was forgotten
		var mu sync.Mutex
		calls := make(map[storetest.Op]int)
		f.leases.Observe(func(e storetest.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Phase == storetest.Called {
				calls[e.Call.Op]++
			}
		})
		nothing := func(history int) {
			t.Helper()
			for name, way := range whatCreatesNothing(t, n, tenant) {
				require.ErrorIs(t, way(), messages.ErrUnknownTenant, name)
			}
			entries, err := f.leases.Inner().History(t.Context(), tenant.Key())
			require.NoError(t, err)
			require.Len(t, entries, history, "no lease")
			require.Empty(t, f.copies(tenant.Key()), "no object")
			_, err = os.Stat(root)
			require.ErrorIs(t, err, os.ErrNotExist, "no folder")
		}
		nothing(0)
		mu.Lock()
		require.Equal(t, len(whatCreatesNothing(t, n, tenant)), calls[storetest.OpRead], "one look at the lease store each")
		require.Len(t, calls, 1, "and nothing else: %v", calls)
		mu.Unlock()

		// What is closed is opened by a read, as it is by a write.
		appendKind(t, tenant, "1")
		require.NoError(t, tenant.Handoff(t.Context()))
		require.Equal(t, []string{"1"}, kinds(t, tenant))
		require.EqualValues(t, 2, epoch(t, tenant))

		require.NoError(t, tenant.Forget(t.Context()))
		entries, err := f.leases.Inner().History(t.Context(), tenant.Key())
		require.NoError(t, err)
		nothing(len(entries))
		require.NoError(t, tenant.Run(t.Context(), func(*ledgeractor.Tx) error { return nil }), "application code may write: it creates")
		require.Empty(t, kinds(t, tenant))
		require.EqualValues(t, 3, epoch(t, tenant))
	})
}

// A read that found the tenant open, and comes too late, does not create it after its end.
func TestQ2_AReadThatMeetsAForgetCreatesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		reached, release := f.leases.GateNext(storetest.OpRelease)
		forgot, read := make(chan error, 1), make(chan error, 1)
		go func() { forgot <- tenant.Forget(t.Context()) }()
		<-reached
		go func() { _, _, err := tenant.Events(t.Context(), 0, 1); read <- err }()
		synctestWait() // it waits for the end of the actor
		time.Sleep(time.Millisecond)
		release()
		require.NoError(t, <-forgot)
		require.ErrorIs(t, <-read, messages.ErrUnknownTenant)
		require.Equal(t, []uint64{1}, f.grants(tenant.Key()))
	})
}

// The lease store has lost its records, and was bound to the copies, but not reseeded. Who reads is not told that there is no such tenant.
func TestK3_AReadOfATenantWhoseRecordIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		kept, gone := open(t, n, "kept"), open(t, n, "gone")
		appendKind(t, kept, "1")
		appendKind(t, gone, "secret")
		require.NoError(t, gone.Forget(t.Context()))
		require.NoError(t, n.Shutdown(t.Context()))
		empty, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(f.root, "new.db"), NoSync: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, empty.Close()) }()
		durable := f.durable.Inner()
		_, err = stores.Rebind(t.Context(), empty, durable)
		require.NoError(t, err)
		faulty := storetest.NewFaultyLeases(empty)
		n = f.start(func(c *actors.Config) { c.Leases = faulty })
		handle := func(key messages.Key) *actors.Tenant {
			tenant, err := n.Tenant(t.Context(), key.Org, key.Tenant)
			require.NoError(t, err)
			return tenant
		}
		for name, way := range whatCreatesNothing(t, n, handle(kept.Key())) {
			err := way()
			require.ErrorIs(t, err, messages.ErrLineageAhead, name)
			require.Contains(t, err.Error(), "lease reseed")
		}
		require.Equal(t, []messages.Code{messages.CodeLineageAhead}, alarms(n))
		// What was forgotten, and what there never was, is unknown, and nothing is made.
		for _, key := range []messages.Key{gone.Key(), {Org: "acme", Tenant: tenantID(t, "never")}} {
			for name, way := range whatCreatesNothing(t, n, handle(key)) {
				require.ErrorIs(t, way(), messages.ErrUnknownTenant, name)
			}
			_, found, err := empty.Read(t.Context(), key)
			require.NoError(t, err)
			require.False(t, found)
		}
		// Where the durable store does not answer, nobody knows.
		never := handle(messages.Key{Org: "acme", Tenant: tenantID(t, "never")})
		heal := f.durable.Every(storetest.OpList, storetest.Fail(nil))
		_, _, err = never.Events(t.Context(), 0, 1)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		heal()

		// A tenant that is created between the two looks is there.
		f.durable.BeforeNext(storetest.OpList, func(ctxT, storetest.Call) { appendKind(t, never, "now") })
		require.Equal(t, []string{"now"}, kinds(t, never))

		require.NoError(t, n.Shutdown(t.Context()))
		_, err = stores.Reseed(t.Context(), empty, durable, stores.ReseedOptions{})
		require.NoError(t, err)
		n = f.start(func(c *actors.Config) { c.Leases = faulty })
		require.Equal(t, []string{"1"}, kinds(t, open(t, n, "kept")))
		require.NoError(t, n.Shutdown(t.Context()))
	})
}
