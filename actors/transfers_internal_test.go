package actors

import (
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
