package snapshotactor

import (
	"context"
	"encoding/json"
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
	require.Equal(t, []string{"e00000004/base.json", "e00000004/snap-000001.db", "e00000004/snap-000001.json", "floor-00000003.json", "floor.json"}, w.names())
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
		require.Regexp(t, "^e00000002/|^floor-00000003", name)
	}
	w.store.Clear()
	_, err = Sweep(context.Background(), n.cfg, 3)
	require.NoError(t, err)
	require.Equal(t, []string{"floor-00000003.json"}, w.names())
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
	require.Equal(t, []string{"floor-00000001.json"}, w.names())
	require.Equal(t, 1, w.store.ReleaseLate())
	require.Equal(t, []string{"e00000001/snap-000001.db", "floor-00000001.json"}, w.names())
	next := w.node(nil)
	require.NoError(t, next.openAt(Grant{Epoch: 2, Floor: 1}))
	require.True(t, next.restored.Empty)
	count, err := Sweep(context.Background(), next.cfg, 1)
	require.NoError(t, err)
	require.Equal(t, 1, count)
	require.Equal(t, []string{"e00000002/base.json", "floor-00000001.json"}, w.names())
}

// The floor is in the durable store before the first copy goes, and stays there, whatever is swept; of several the newest.
func TestK3_TheDurableStoreKeepsTheFloor(t *testing.T) {
	w := newWorld(t)
	n := w.history3()
	w.store.BeforeNext(storetest.OpDeletePrefix, func(context.Context, storetest.Call) {
		require.Contains(t, w.names(), "floor-00000002.json")
	})
	_, err := DeleteForgotten(context.Background(), n.cfg, 2)
	require.NoError(t, err)
	w.store.FailNext(storetest.OpDelete, nil) // of the older floor: tried again
	_, err = DeleteForgotten(context.Background(), n.cfg, 3)
	require.NoError(t, err)
	w.store.Before(storetest.OpPut, func(context.Context, storetest.Call) { t.Error("a sweep writes a floor that is there") })
	_, err = Sweep(context.Background(), n.cfg, 3)
	require.NoError(t, err)
	for range 2 {
		_, err = Sweep(context.Background(), n.cfg, 2) // by one who knows an older record
		require.NoError(t, err)
		require.Equal(t, []string{"floor-00000003.json"}, w.names())
	}
	var floor messages.Floor
	require.NoError(t, json.Unmarshal(w.get(testKey.FloorName(3)), &floor))
	require.Equal(t, messages.Floor{Kind: "floor", Version: 1, Key: testKey.String(), Floor: 3}, floor)

	// A floor that cannot be kept keeps the copies.
	w = newWorld(t)
	n = w.history3()
	before := w.names()
	w.store.Every(storetest.OpPut, storetest.Fail(nil))
	_, err = DeleteForgotten(context.Background(), n.cfg, 3)
	code(t, messages.CodeUnavailable, err)
	require.Equal(t, before, w.names())
}

// A lease record that knows less than the durable store is not believed.
func TestK3_CopiesAndFloorsThatTheRecordDoesNotKnow(t *testing.T) {
	w := newWorld(t)
	n := w.history3()
	unmarked := w.node(nil)
	_, err := Open(context.Background(), unmarked.cfg, Grant{Epoch: 9})
	code(t, messages.CodeLineageAhead, err)
	_, err = DeleteForgotten(context.Background(), n.cfg, 3)
	require.NoError(t, err)
	code(t, messages.CodeLineageAhead, w.node(nil).openAt(Grant{Epoch: 4}))
	object(t, testKey.FloorName(3), w.node(nil).openAt(Grant{Epoch: 4, Floor: 2}))
	require.NoError(t, w.node(nil).openAt(Grant{Epoch: 4, Floor: 3}))
}

func TestK2_AMarkedLineageThatIsGoneIsRefused(t *testing.T) {
	w := newWorld(t)
	prepared := 0
	n := w.node(func(c *Config) { c.Prepare = func(context.Context) error { prepared++; return nil } })
	code(t, messages.CodeLineageMissing, n.openAt(Grant{Epoch: 4, Marked: true}))
	require.Empty(t, w.names())
	require.Zero(t, prepared)
	// Seals and images are no lineage either.
	w.put(testKey.ImageName(2, 1), []byte("an upload that was late"))
	code(t, messages.CodeLineageMissing, n.openAt(Grant{Epoch: 4, Marked: true}))
	require.NoError(t, n.openAt(Grant{Epoch: 4}))
	require.Equal(t, 1, prepared)
}
