package storetest

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// oversized is the size of the object of Oversized: 8 TB, more than any process could hold.
const oversized = 8 << 40

// Oversized checks that an object of 8 TB costs its reader an error, and nothing else: no memory, no other object. replace makes the
// object of a key one of that size, by whatever the medium offers: a sparse file, or a record that says so.
func Oversized(t *testing.T, store stores.DurableStore, replace func(t *testing.T, key string, size int64)) {
	ctx, prefix := t.Context(), newPrefix()
	key, other := prefix+"e00000001/base.json", prefix+"e00000001/snap-000001.db"
	for _, k := range []string{key, other} {
		created, err := store.PutIfAbsent(ctx, k, []byte(k))
		require.NoError(t, err)
		require.True(t, created)
	}
	replace(t, key, oversized)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, most := range []int64{0, messages.MaxSmallObjectBytes, 1 << 30, oversized - 1} {
		data, ok, err := store.Get(ctx, key, most)
		require.Equal(t, stores.Oversized(key, oversized, most), err)
		require.False(t, ok)
		require.Nil(t, data)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), "allocated for an object that is refused")

	data, ok, err := store.Get(ctx, other, messages.MaxSmallObjectBytes)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, other, string(data))
	created, err := store.PutIfAbsent(ctx, key, []byte("x"))
	require.NoError(t, err)
	require.False(t, created, "it is there, however large")
	n, err := store.DeletePrefix(ctx, prefix)
	require.NoError(t, err)
	require.Equal(t, 2, n, "it can be deleted")
}
