package stores_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/storetest"
)

const leaver = "node-a#1"

// left grants epochs of a key, and leaves the last one released.
func left(t *testing.T, leases stores.LeaseStore, key messages.Key, epochs uint64) {
	t.Helper()
	for epoch := range epochs {
		_, err := leases.Acquire(t.Context(), key, leaver, messages.MaxTTL)
		require.NoError(t, err)
		require.NoError(t, leases.Release(t.Context(), key, leaver, epoch+1))
	}
}

func put(t *testing.T, durable stores.DurableStore, names ...string) {
	t.Helper()
	for _, name := range names {
		created, err := durable.PutIfAbsent(t.Context(), name, []byte("x"))
		require.NoError(t, err)
		require.True(t, created, name)
	}
}

// A lease store that takes the place of another one knows what only the records of that one said.
func TestK3_AMoveTakesTheRecordsAlong(t *testing.T) {
	old, durable, fresh := newLeases(t), newDurable(t), newLeases(t)
	was, err := stores.Bind(t.Context(), old, durable)
	require.NoError(t, err)
	served, cutOff, unpinned, missing := storetest.NewKey(), storetest.NewKey(), storetest.NewKey(), storetest.NewKey()

	for _, key := range []messages.Key{served, missing} {
		_, err = old.Acquire(t.Context(), key, leaver, messages.MaxTTL)
		require.NoError(t, err)
		require.NoError(t, old.MarkLineage(t.Context(), key, leaver, 1))
		require.NoError(t, old.Release(t.Context(), key, leaver, 1))
	}
	put(t, durable, served.BaseName(1), served.ImageName(1, 1))
	left(t, old, unpinned, 4) // opens that failed before they pinned anything
	// A forget that was cut off between its mark and the first object that it deletes.
	_, err = old.Acquire(t.Context(), cutOff, leaver, messages.MaxTTL)
	require.NoError(t, err)
	require.NoError(t, old.MarkLineage(t.Context(), cutOff, leaver, 1))
	put(t, durable, cutOff.BaseName(1), cutOff.ImageName(1, 1))
	require.NoError(t, old.MarkForgotten(t.Context(), cutOff, leaver, 1))
	move := stores.ReseedOptions{From: old}

	_, err = stores.Reseed(t.Context(), fresh, durable, move)
	require.ErrorIs(t, err, messages.ErrHeld, "its node may run")
	none, err := fresh.Leases(t.Context(), "", 10)
	require.NoError(t, err)
	require.Empty(t, none)
	require.NoError(t, stores.CheckDeployment(t.Context(), old, durable, was), "nothing was done")

	require.NoError(t, old.Release(t.Context(), cutOff, leaver, 1))
	raised, err := stores.Reseed(t.Context(), fresh, durable, move)
	require.NoError(t, err)
	require.Len(t, raised, 4)
	read := func(key messages.Key) messages.Lease {
		lease, _, err := fresh.Read(t.Context(), key)
		require.NoError(t, err)
		return lease
	}
	require.EqualValues(t, 2, read(served).Epoch)
	require.True(t, read(served).HasLineage())
	require.EqualValues(t, 5, read(unpinned).Epoch, "an epoch is granted once, also one that left no object")
	require.False(t, read(cutOff).Exists(), "it was forgotten: its copies must not come back")
	require.True(t, read(missing).HasLineage(), "copies that are missing stay missing, and are not begun anew")
	_, err = stores.Bind(t.Context(), old, durable)
	require.ErrorIs(t, err, messages.ErrDeploymentMismatch, "nobody starts on the store that was left")
	require.ErrorIs(t, stores.CheckDeployment(t.Context(), old, durable, was), messages.ErrDeploymentMismatch, "who still runs on it is told")
	_, err = stores.Bind(t.Context(), fresh, durable)
	require.NoError(t, err)
	again, err := stores.Reseed(t.Context(), fresh, durable, move)
	require.NoError(t, err)
	require.Empty(t, again, "it can be repeated")
}

// A move that is cut off after any of its calls is completed by repeating it.
func TestK3_AMoveThatIsCutOffIsRepeated(t *testing.T) {
	cut := 0
	for _, effect := range []bool{false, true} {
		for n := 1; ; n++ {
			old, durable, fresh := newLeases(t), newDurable(t), newLeases(t)
			_, err := stores.Bind(t.Context(), old, durable)
			require.NoError(t, err)
			key := storetest.NewKey()
			left(t, old, key, 3)
			put(t, durable, key.BaseName(3), key.ImageName(3, 1))
			err = cutOff(fresh, durable, n, effect, func() error {
				_, err := stores.Reseed(t.Context(), fresh, durable, stores.ReseedOptions{From: old})
				return err
			})
			if err == nil {
				break
			}
			cut++
			require.ErrorIs(t, err, messages.ErrUnavailable)
			_, err = stores.Reseed(t.Context(), fresh, durable, stores.ReseedOptions{From: old})
			require.NoError(t, err, "call %d, effect %v", n, effect)
			_, err = stores.Bind(t.Context(), fresh, durable)
			require.NoError(t, err)
			lease, _, err := fresh.Read(t.Context(), key)
			require.NoError(t, err)
			require.Greater(t, lease.Epoch, uint64(3))
			require.True(t, lease.HasLineage())
		}
	}
	require.GreaterOrEqual(t, cut, 20)
	t.Logf("%d moves cut off", cut)
}

// A wrong URL is refused before anything is changed.
func TestK1_AMoveOfStoresThatDoNotBelongTogetherIsRefused(t *testing.T) {
	old, durable, otherLeases, otherDurable := newLeases(t), newDurable(t), newLeases(t), newDurable(t)
	was, err := stores.Bind(t.Context(), old, durable)
	require.NoError(t, err)
	others, err := stores.Bind(t.Context(), otherLeases, otherDurable)
	require.NoError(t, err)
	key := storetest.NewKey()
	left(t, old, key, 2)

	_, err = stores.Reseed(t.Context(), otherLeases, durable, stores.ReseedOptions{From: old})
	require.ErrorIs(t, err, messages.ErrDeploymentMismatch, "onto the lease store of other copies")
	_, err = stores.Reseed(t.Context(), newLeases(t), otherDurable, stores.ReseedOptions{From: old})
	require.ErrorIs(t, err, messages.ErrDeploymentMismatch, "from the lease store of other copies")
	_, err = stores.Reseed(t.Context(), old, durable, stores.ReseedOptions{From: old})
	require.ErrorIs(t, err, messages.ErrInvalidArgument, "onto itself")
	require.NoError(t, stores.CheckDeployment(t.Context(), old, durable, was))
	require.NoError(t, stores.CheckDeployment(t.Context(), otherLeases, otherDurable, others))
	lease, found, err := otherLeases.Read(t.Context(), key)
	require.NoError(t, err)
	require.False(t, found, "%v", lease)
}

// A node that nobody stopped, because it held no lease, takes one while the move goes on: who moves is told.
func TestK3_AMoveTellsOfANodeThatWokeUpMeanwhile(t *testing.T) {
	old, durable, fresh := newLeases(t), newDurable(t), newLeases(t)
	_, err := stores.Bind(t.Context(), old, durable)
	require.NoError(t, err)
	key := storetest.NewKey()
	left(t, old, key, 1)
	put(t, durable, key.BaseName(1), key.ImageName(1, 1))
	fresh.BeforeNext(storetest.OpReseed, func(ctx context.Context, _ storetest.Call) {
		_, err := old.Acquire(ctx, key, leaver, messages.MaxTTL)
		require.NoError(t, err)
	})
	_, err = stores.Reseed(t.Context(), fresh, durable, stores.ReseedOptions{From: old})
	require.ErrorIs(t, err, messages.ErrHeld)
	require.Equal(t, leaver, messages.AsError(err).Owner)
}
