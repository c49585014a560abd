package snapshotactor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// withLast cuts last images as it cuts others, and refuses to cut others while the fence is closed.
func withLast(n *tenant) {
	cut := n.cfg.Cut
	n.cfg.CutLast = cut
	n.cfg.Cut = func(ctx context.Context) (Image, error) {
		if err := n.fence.Check(); err != nil {
			return Image{}, err
		}
		return cut(ctx)
	}
}

func TestS12_ALastSnapshotIsPublishedAndDoesNotCount(t *testing.T) {
	inActor(t, withLast, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		n.fence.Close(messages.ReasonExpiredLocally)
		n.ref.Send(Take{Reason: "ordinary"})
		refused := next[Taken](t, n)
		code(t, messages.CodeFenced, refused.Err)
		require.Zero(t, refused.Manifest.Snapshot)
		n.ref.Send(Take{Reason: "last", Last: true, Version: 1})
		last := next[Taken](t, n)
		code(t, messages.CodeFenced, last.Err)
		require.EqualValues(t, 1, last.Manifest.Snapshot, "published")
		require.EqualValues(t, 1, last.Version)
		n.fence.Close("") // a renewal at the same epoch
		n.ref.Send(Take{Reason: "ordinary"})
		taken := next[Taken](t, n)
		require.NoError(t, taken.Err)
		require.EqualValues(t, 2, taken.Manifest.Snapshot)
		require.Equal(t, "cut-2", w.holds(2))
	})
}

func TestS12_ALastSnapshotMeetsTheSealOfASuccessor(t *testing.T) {
	inActor(t, withLast, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		n.fence.Close(messages.ReasonExpiredLocally)
		require.Empty(t, w.holds(2))
		n.ref.Send(Take{Last: true})
		require.ErrorIs(t, next[Taken](t, n).Err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonSlotTaken})
		require.Empty(t, w.holds(3))
	})
}

// A number that was in doubt when the fence closed is settled first. Only if it lacks something another
// image is cut.
func TestS10_ALastSnapshotSettlesTheNumberInDoubt(t *testing.T) {
	for version, cuts := range map[uint64]int{1: 1, 2: 2} {
		inActor(t, withLast, func(t *testing.T, w *world, n *tenant) {
			n.opens(t, 1)
			w.store.Down(nil)
			n.ref.Send(Take{Reason: "precaution"})
			code(t, messages.CodeUnavailable, next[Taken](t, n).Err)
			n.fence.Close(messages.ReasonExpiredLocally)
			n.ref.Send(Take{Reason: "last", Last: true, Version: version})
			code(t, messages.CodeUnavailable, next[Taken](t, n).Err)
			w.store.Up()
			n.ref.Send(Take{Reason: "last", Last: true, Version: version})
			if cuts == 2 {
				require.True(t, next[Taken](t, n).Settled)
			}
			last := next[Taken](t, n)
			code(t, messages.CodeFenced, last.Err)
			require.False(t, last.Settled)
			require.EqualValues(t, cuts, last.Manifest.Snapshot)
			require.EqualValues(t, version, last.Version)
			require.Equal(t, "last", last.Reason)
			require.Equal(t, cuts, n.cuts)
		})
	}
}

func TestS10_HurryEndsAnAttemptThatHangsAndLosesNothing(t *testing.T) {
	inActor(t, withLast, func(t *testing.T, w *world, n *tenant) {
		n.ref.Send(Hurry{}) // there is nothing to hurry
		n.opens(t, 1)
		w.store.Freeze()
		n.ref.Send(Take{Reason: "hangs"})
		time.Sleep(time.Second)
		w.store.Up() // its request is lost all the same
		begun := time.Now()
		n.ref.Send(Hurry{})
		hung := next[Taken](t, n)
		code(t, messages.CodeUnavailable, hung.Err)
		require.Zero(t, hung.Manifest.Snapshot)
		n.ref.Send(Take{Reason: "again"})
		require.EqualValues(t, 1, next[Taken](t, n).Manifest.Snapshot)
		require.EqualValues(t, 2, next[Taken](t, n).Manifest.Snapshot)
		require.Less(t, time.Since(begun), time.Second)
		// It ends no upkeep.
		reached, open := w.store.GateNext(storetest.OpList)
		n.ref.Send(SweepUpTo{Floor: 1})
		<-reached
		n.ref.Send(Hurry{})
		open()
		require.NoError(t, next[Swept](t, n).Err)
	})
}

func TestALastTakeWithoutAnythingToCutWithIsAnswered(t *testing.T) {
	inActor(t, nil, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		n.ref.Send(Take{Last: true})
		code(t, messages.CodeInvalidArgument, next[Taken](t, n).Err)
	})
}
