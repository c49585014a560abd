package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// onSmallDisk puts a member's local files onto a file system of 8 MiB.
func onSmallDisk(t *testing.T) (root string, change func(*actors.Config, *cluster.Config)) {
	t.Helper()
	root = storetest.SmallDisk(t, "8m", 0)
	return root, func(n *actors.Config, _ *cluster.Config) { n.StateRoot, n.SnapshotEvery = root, time.Hour }
}

func fillUp(t *testing.T, root string) (makeRoom func()) {
	t.Helper()
	path := filepath.Join(root, "filler")
	require.ErrorIs(t, os.WriteFile(path, make([]byte, 9<<20), 0o600), syscall.ENOSPC)
	return func() { require.NoError(t, os.Remove(path)) }
}

// seesState waits until a member knows another one in a state.
func seesState(t *testing.T, p, other *part, want cluster.State) {
	t.Helper()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(p.Members(), func(i cluster.Info) bool { return i.Owner == other.node.Owner() && i.State == want })
	}, 20*time.Second, 10*time.Millisecond)
}

// A member whose disk is full serves nothing new: whoever asks it is sent on, and soon nobody does. What it served before
// goes elsewhere when it cannot store something, without a loss. With room it is a member as before.
func TestAMemberWithAFullDiskSendsItsTenantsToTheOthers(t *testing.T) {
	root, small := onSmallDisk(t)
	f := newFleet(t)
	a, b := f.join("a", small), f.join("b")
	f.see(2, a, b)
	ctx := within(t, time.Minute)
	outside := f.client()
	appendTo := func(i int) {
		_, err := f.tenant(outside, i).Append(ctx, messages.Event{Kind: "k", IdemKey: "1"})
		require.NoError(t, err)
	}
	mine := 0
	for appendTo(mine); !a.node.Serves(f.key(mine)); appendTo(mine) {
		mine++
	}
	makeRoom := fillUp(t, root)

	// Nobody knows yet: the first tenant that is opened there costs an epoch, and no request.
	next, met := mine+1, 0
	for ; met == 0; next++ {
		appendTo(next)
		require.True(t, b.node.Serves(f.key(next)))
		if grants := f.grants(next); len(grants) > 1 {
			require.Equal(t, a.node.Owner(), grants[0].Owner)
			met = next
		}
	}
	seesState(t, b, a, cluster.StateFull)
	for range 8 { // half of them should be at a
		appendTo(next)
		require.Len(t, f.grants(next), 1)
		require.True(t, b.node.Serves(f.key(next)))
		next++
	}

	// It serves what it served, until something must be stored.
	handle := f.tenant(outside, mine)
	_, _, err := handle.Events(ctx, 0, 10)
	require.NoError(t, err)
	require.True(t, a.node.Serves(f.key(mine)))
	acknowledged := 1
	large := messages.Event{Kind: "large", Payload: []byte(`"` + strings.Repeat("x", 512<<10) + `"`)}
	for err = nil; err == nil && acknowledged < 50; acknowledged++ {
		_, err = handle.Append(ctx, large)
	}
	require.ErrorIs(t, err, messages.ErrStorage)
	require.Eventually(t, func() bool { return b.node.Serves(f.key(mine)) }, 20*time.Second, 10*time.Millisecond)
	events, _, err := handle.Events(ctx, 0, 100)
	require.NoError(t, err)
	require.Len(t, events, acknowledged-1, "every acknowledged event, and not the one that was refused")

	makeRoom()
	seesState(t, b, a, cluster.StateServing)
	require.Eventually(t, func() bool { return a.node.Serves(f.key(mine)) }, 20*time.Second, 10*time.Millisecond, "tenants go back")
}

// When no member has room, the answer is that, and it does not take until the deadline.
func TestAClusterWithoutRoomSaysSo(t *testing.T) {
	f := newFleet(t)
	rootA, smallA := onSmallDisk(t)
	rootB, smallB := onSmallDisk(t)
	a, b := f.join("a", smallA), f.join("b", smallB)
	f.see(2, a, b)
	fillUp(t, rootA)
	fillUp(t, rootB)
	for i := range 6 { // the first ones before anybody knows, the others after that
		ctx := within(t, 20*time.Second)
		_, err := f.tenant(f.client(), i).Append(ctx, messages.Event{Kind: "k", IdemKey: "1"})
		require.Equal(t, messages.CodeStorage, messages.CodeOf(err), "%v", err)
	}
	require.Error(t, a.node.Full())
	require.Error(t, b.node.Full())
}
