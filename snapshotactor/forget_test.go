package snapshotactor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestS6_ForgetDeletesEveryCopyEpochByEpoch(t *testing.T) {
	w := newWorld(t)
	n := w.history3()
	w.put(testKey.EpochPrefix(2)+"written-by-a-newer-version.bin", []byte("x"))
	w.put(testKey.Prefix()+"floor.json", []byte("{}"))
	neighbour := messages.Key{Org: "acme", Tenant: "t-00000000000000000000000000000000"}
	w.put(neighbour.BaseName(1), []byte("{}"))
	later := w.opened(4)
	_, err := later.publish(t, "new")
	require.NoError(t, err)
	var prefixes []string
	w.store.Before(storetest.OpDeletePrefix, func(_ context.Context, c storetest.Call) { prefixes = append(prefixes, c.Key) })
	all := len(w.names())
	count, err := DeleteForgotten(context.Background(), n.cfg, 3)
	require.NoError(t, err)
	require.Equal(t, []string{testKey.EpochPrefix(1), testKey.EpochPrefix(2), testKey.EpochPrefix(3)}, prefixes)
	require.Equal(t, []string{"e00000004/base.json", "e00000004/snap-000001.db", "e00000004/snap-000001.json", "floor.json"}, w.names())
	require.Equal(t, all-4, count)
	require.NotEmpty(t, w.get(neighbour.BaseName(1)))
	count, err = DeleteForgotten(context.Background(), n.cfg, 3)
	require.NoError(t, err)
	require.Zero(t, count)
	count, err = DeleteForgotten(context.Background(), n.cfg, 0)
	require.NoError(t, err)
	require.Zero(t, count)
}

func TestS6_TheNextOpenAfterAForgetStartsEmpty(t *testing.T) {
	w := newWorld(t)
	w.history3()
	// Nothing was deleted yet: the floor alone decides.
	next := w.node(nil)
	require.NoError(t, next.openAt(Grant{Epoch: 4, Floor: 3}))
	require.True(t, next.restored.Empty)
	require.Equal(t, "", wordsIn(t, next.cfg.File))
	_, err := next.publish(t, "new")
	require.NoError(t, err)
	after := w.node(nil)
	require.NoError(t, after.openAt(Grant{Epoch: 5, Floor: 3}))
	require.Equal(t, "new", wordsIn(t, after.cfg.File))
}

func TestS6_ForgetGoesOnAfterAFailure(t *testing.T) {
	w := newWorld(t)
	n := w.history3()
	w.store.Add(func(c storetest.Call) bool {
		return c.Op == storetest.OpDeletePrefix && c.Key == testKey.EpochPrefix(2)
	}, -1,
		func(storetest.Call) storetest.Action { return storetest.Fail(nil) })
	_, err := DeleteForgotten(context.Background(), n.cfg, 3)
	code(t, messages.CodeUnavailable, err)
	for _, name := range w.names() {
		require.Contains(t, name, "e00000002/")
	}
	w.store.Clear()
	_, err = Sweep(context.Background(), n.cfg, 3)
	require.NoError(t, err)
	require.Empty(t, w.names())
}

func TestS11_AnUploadThatLandsAfterAForgetIsSwept(t *testing.T) {
	w := newWorld(t)
	n := w.opened(1)
	w.store.LateNext(storetest.OpPut, -1)
	n.publisher.Attempts = 1
	_, err := n.publish(t, "late")
	code(t, messages.CodeUnavailable, err)
	_, err = DeleteForgotten(context.Background(), n.cfg, 1)
	require.NoError(t, err)
	require.Empty(t, w.names())
	require.Equal(t, 1, w.store.ReleaseLate())
	require.Equal(t, []string{"e00000001/snap-000001.db"}, w.names())
	next := w.node(nil)
	require.NoError(t, next.openAt(Grant{Epoch: 2, Floor: 1}))
	require.True(t, next.restored.Empty)
	count, err := Sweep(context.Background(), next.cfg, 1)
	require.NoError(t, err)
	require.Equal(t, 1, count)
	require.Equal(t, []string{"e00000002/base.json"}, w.names())
}
