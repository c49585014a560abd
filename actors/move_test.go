package actors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// Whoever meets a tenant on its way is told where it goes; after a move that failed nobody is sent there any more.
func TestH5_ADrainingTenantNamesItsNextOwner(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		key := tenant.Key()
		require.True(t, n.Has(key))
		require.True(t, n.Serves(key))
		require.Equal(t, []messages.Key{key}, n.Serving())
		refused := func() *messages.Error {
			t.Helper()
			synctest.Wait()
			require.False(t, n.Serves(key))
			_, err := tenant.Append(t.Context(), messages.Event{Kind: "k"})
			require.ErrorIs(t, err, messages.ErrDraining)
			return messages.AsError(err)
		}
		appendKind(t, tenant, "1")
		f.durable.Freeze()
		moved := make(chan error, 1)
		go func() { moved <- n.Move(within(t, time.Second), key, "next#1") }()
		require.Equal(t, "next#1", refused().Owner)
		require.Error(t, <-moved)
		synctest.Wait() // its caller gave up, and does not see the end
		require.True(t, n.Serves(key))
		go func() { moved <- tenant.Handoff(within(t, time.Second)) }()
		require.Empty(t, refused().Owner, "that one is not its next owner any more")
		require.Error(t, <-moved)
		synctest.Wait()
		go func() { moved <- n.Move(within(t, time.Second), key, "next#1") }()
		require.Equal(t, "next#1", refused().Owner)
		require.Error(t, <-moved)
		synctest.Wait()
		go func() { moved <- tenant.Forget(within(t, time.Second)) }() // names nobody
		require.Empty(t, refused().Owner, "a move that failed leaves nobody behind")
		require.Error(t, <-moved)
		synctest.Wait()
		f.durable.Up()
		require.NoError(t, n.Move(within(t, time.Minute), key, "next#1"))
		require.ErrorIs(t, n.Move(within(t, time.Minute), key, "next#1"), messages.ErrNotOwner)
		require.False(t, n.Serves(key))
		require.Equal(t, []string{"1"}, kinds(t, open(t, f.start(), "u")))
	})
}
