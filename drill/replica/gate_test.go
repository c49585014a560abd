package replica

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

func TestGateHoldWaitsForCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		require.NoError(t, g.enter(t.Context()))
		held := make(chan error, 1)
		go func() { held <- g.hold(t.Context()) }()
		synctest.Wait()
		require.Empty(t, held, "a call is still inside")

		entered := make(chan error, 1)
		go func() { entered <- g.enter(t.Context()) }()
		synctest.Wait()
		require.Empty(t, entered, "nobody enters a held gate")

		g.leave()
		require.NoError(t, <-held)
		synctest.Wait()
		require.Empty(t, entered, "nor one that is held and empty")

		g.release()
		require.NoError(t, <-entered)
		g.leave()
		require.NoError(t, g.hold(t.Context()), "it can be held again")
		require.NoError(t, g.hold(t.Context()), "and held once more")
		g.release()
		g.release()
		require.NoError(t, g.enter(t.Context()))
		g.leave()
	})
}

func TestGateGivesUpWithTheContext(t *testing.T) {
	g := newGate()
	require.NoError(t, g.hold(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.enter(ctx), messages.ErrUnavailable)
	g.release()
	require.NoError(t, g.enter(t.Context()))
	require.ErrorIs(t, g.hold(ctx), context.Canceled)
	g.leave()
}
