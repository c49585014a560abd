package actors

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// A cut that was under way when its actor ended used to keep the slot of the node for ever.
func TestATransferThatComesAfterTheEndOfItsActorKeepsNoSlot(t *testing.T) {
	n := &Node{transfers: make(chan struct{}, 1)}
	act := &activation{node: n}
	require.NoError(t, act.takeSlot(t.Context()))
	require.Len(t, n.transfers, 1)
	require.NoError(t, act.takeSlot(t.Context()), "the slot of the earlier image is used again")
	act.closeSlot()
	require.Empty(t, n.transfers)
	require.ErrorIs(t, act.takeSlot(t.Context()), messages.ErrClosed)
	require.Empty(t, n.transfers)
	act.returnSlot()
	act.closeSlot()
	require.Empty(t, n.transfers)
}

// The final snapshot of a handoff must not stand in line behind the periodic ones of a thousand tenants that serve.
func TestWhoDoesNotServeHasSlotsOfItsOwn(t *testing.T) {
	n := &Node{transfers: make(chan struct{}, 1), urgent: make(chan struct{}, 1)}
	serving := func() *activation {
		act := &activation{node: n}
		act.serving.Store(true)
		return act
	}
	first := serving()
	require.NoError(t, first.takeSlot(t.Context()))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, serving().takeSlot(over), messages.ErrCanceled, "periodic snapshots wait")
	draining := &activation{node: n}
	require.NoError(t, draining.takeSlot(t.Context()))
	require.True(t, draining.hasSlot())
	require.Len(t, n.urgent, 1)
	draining.returnSlot()
	waiting, got := serving(), make(chan error, 1)
	waiting.stops() // as it did while it was opened
	waiting.serving.Store(true)
	go func() { got <- waiting.takeSlot(t.Context()) }()
	waiting.stops()
	require.NoError(t, <-got, "a periodic snapshot that a handoff waits for")
	require.Len(t, n.urgent, 1)
	require.ErrorIs(t, (&activation{node: n}).takeSlot(over), messages.ErrCanceled, "these are bounded, too")
	waiting.returnSlot()
	require.False(t, waiting.hasSlot())
	require.NoError(t, draining.takeSlot(t.Context()))
	draining.closeSlot()
	first.closeSlot()
	require.Empty(t, n.urgent)
	require.Empty(t, n.transfers)
}
