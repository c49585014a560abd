package actors_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
)

// startOn starts a node with a state root of its own on the stores at two paths.
func startOn(t *testing.T, leasesAt, durableAt string) (*actors.Node, error) {
	t.Helper()
	leases, err := sqlite.Open(t.Context(), sqlite.Config{Path: leasesAt, NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = leases.Close() })
	durable, err := dir.Open(t.Context(), dir.Config{Root: durableAt, NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = durable.Close() })
	node, err := actors.Start(t.Context(), actors.Config{StateRoot: t.TempDir(), Leases: leases, Durable: durable, TTL: 400 * time.Millisecond})
	if err == nil {
		t.Cleanup(func() { _ = node.Abort() })
	}
	return node, err
}

// Two nodes with lease files of their own on one durable store acknowledged alternately, and each lost what the other
// wrote: the second does not start.
func TestK1_ANodeOnStoresThatDoNotBelongTogetherDoesNotStart(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	_, err := startOn(t, at("a.db"), at("copies"))
	require.NoError(t, err)
	_, err = startOn(t, at("a.db"), at("copies"))
	require.NoError(t, err, "a second node on the same two stores")
	for _, pair := range [][2]string{{"b.db", "copies"}, {"a.db", "empty"}} {
		_, err = startOn(t, at(pair[0]), at(pair[1]))
		require.ErrorIs(t, err, messages.ErrDeploymentMismatch)
		require.ErrorContains(t, err, at(pair[0]))
		require.ErrorContains(t, err, at(pair[1]))
		require.ErrorContains(t, err, "docs/operations.md")
	}
	_, err = startOn(t, at("b.db"), at("other"))
	require.NoError(t, err, "a refused start has bound nothing")
	_, err = startOn(t, at("b.db"), at("copies"))
	require.ErrorIs(t, err, messages.ErrDeploymentMismatch)
}

// A store that goes away under a running node raises an alarm, which ends when it is back.
func TestK4_AStoreThatGoesAwayUnderANodeRaisesAnAlarm(t *testing.T) {
	for _, name := range []string{"leases.db", "copies"} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			node, err := startOn(t, filepath.Join(root, "leases.db"), filepath.Join(root, "copies"))
			require.NoError(t, err)
			require.NoError(t, os.Rename(filepath.Join(root, name), filepath.Join(root, "aside")))
			require.Eventually(t, func() bool {
				alarms := node.Alarms()
				return len(alarms) == 1 && alarms[0].Err.Code == messages.CodeDeploymentMismatch && alarms[0].Err.Object == filepath.Join(root, name)
			}, time.Minute, 10*time.Millisecond)
			require.NoError(t, os.Rename(filepath.Join(root, "aside"), filepath.Join(root, name)))
			require.Eventually(t, func() bool { return len(node.Alarms()) == 0 }, time.Minute, 10*time.Millisecond)
		})
	}
}

// The copies went to another lease store while a node, which held no lease, was not stopped: it takes none in the store that was left.
func TestK4_ANodeOnALeaseStoreThatWasLeftOpensNothing(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	node, err := startOn(t, at("old.db"), at("copies"))
	require.NoError(t, err)
	tenant := open(t, node, "u")
	appendKind(t, tenant, "1")
	require.NoError(t, tenant.Handoff(t.Context()))
	reopen := func(name string) *sqlite.Store {
		leases, err := sqlite.Open(t.Context(), sqlite.Config{Path: at(name), NoSync: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, leases.Close()) })
		return leases
	}
	durable, err := dir.Open(t.Context(), dir.Config{Root: at("copies"), NoSync: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, durable.Close()) }()
	old := reopen("old.db")
	_, err = stores.Reseed(t.Context(), reopen("new.db"), durable, stores.ReseedOptions{From: old})
	require.NoError(t, err)

	require.Eventually(t, func() bool { return len(node.Alarms()) == 1 }, time.Minute, 10*time.Millisecond)
	for _, subject := range []string{"u", "another"} {
		err = openErr(t, node, messages.Key{Org: "acme", Tenant: tenantID(t, subject)})
		require.ErrorIs(t, err, messages.ErrDeploymentMismatch)
	}
	lease, _, err := old.Read(t.Context(), tenant.Key())
	require.NoError(t, err)
	require.EqualValues(t, 1, lease.Epoch)
	next, err := startOn(t, at("new.db"), at("copies"))
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, kinds(t, open(t, next, "u")))
}
