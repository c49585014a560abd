package history

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

func TestTailsAreWhatTheNextEpochDidNotBeginWith(t *testing.T) {
	h := sound(t)
	fenced := messages.Lifecycle{Kind: messages.LifecycleFenced, Reason: messages.ReasonExpiredLocally, Key: key, Owner: "b#1", Epoch: 2, At: at(20)}
	h.Lifecycle = append(h.Lifecycle, fenced)
	tails := h.Tails()
	require.Len(t, tails, 1)
	writes := tails[0].Writes
	require.Len(t, writes, 1)
	require.Equal(t, "w3", writes[0].ID)
	tails[0].Writes = nil
	require.Equal(t, Tail{Key: key, Epoch: 2, Owner: "b#1", Granted: at(10), Next: at(30), Fenced: at(20)}, tails[0])

	closed := sound(t)
	closed.Lifecycle = append(closed.Lifecycle, messages.Lifecycle{Kind: messages.LifecycleClosed, Key: key, Owner: "b#1", Epoch: 2, At: at(25)})
	require.Equal(t, at(25), closed.Tails()[0].Closed)

	resumed := sound(t)
	open := fenced
	open.Kind, open.Reason, open.At = messages.LifecycleResumed, "", at(22)
	resumed.Lifecycle = append(resumed.Lifecycle, fenced, open)
	require.Zero(t, resumed.Tails()[0].Fenced)

	h.Trails[key] = append(h.Trails[key], messages.LeaseEntry{Op: messages.OpRelease, Owner: "b#1", Epoch: 2, At: at(21)})
	require.True(t, h.Tails()[0].Released)

	forgotten := sound(t)
	forgotten.Trails[key][3].Floor = 2
	require.Empty(t, forgotten.Tails())

	excused := sound(t)
	excused.Excused[key] = map[messages.Position]bool{{Epoch: 2, Snapshot: 2}: true}
	require.Empty(t, excused.Tails())

	// The last snapshot leaves none.
	saved := sound(t)
	saved.publish(t, 2, 2, "b#1", messages.Position{Epoch: 1, Snapshot: 1}, rows("w1", "w2", "w3"), at(21))
	saved.pin(t, 3, "c#1", messages.Position{Epoch: 2, Snapshot: 2}, at(31))
	require.Empty(t, saved.Tails())
}
