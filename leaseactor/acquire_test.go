package leaseactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestS10_LostAcquireIsAdoptedByRenewingIt(t *testing.T) {
	for name, action := range map[string]storetest.Action{
		"answer lost":           storetest.LoseAnswer(nil),
		"answer after the call": storetest.DelayAnswer(2 * timeout),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				h := w.holder()
				w.faulty.Next(storetest.OpAcquire, action)
				var renewal time.Time
				w.faulty.SlowNext(storetest.OpRead, tick)
				w.faulty.Observe(func(e storetest.Event) {
					if e.Phase == storetest.Called && e.Call.Op == storetest.OpRenew {
						renewal = time.Now()
					}
				})
				lease, err := h.Acquire(w.ctx)
				require.NoError(w, err)
				require.Equal(w, uint64(1), lease.Epoch)
				require.False(w, renewal.IsZero())
				require.True(w, h.Fence().Deadline().Equal(renewal.Add(window)), "the window is that of the renewal")
				require.Len(w, w.trail(messages.OpAcquire), 1)
			})
		})
	}
}

func TestS10_LostAcquireWithoutEffectIsUnavailable(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.holder()
		w.faulty.FailNext(storetest.OpAcquire, nil)
		_, err := h.Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrUnavailable)
		w.takeover()
		w.faulty.FailNext(storetest.OpAcquire, nil)
		_, err = h.Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrHeld, "another owner was read back")
		require.ErrorIs(w, err, messages.ErrUnavailable)
		w.faulty.Down(nil)
		_, err = h.Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrUnavailable)
		require.False(w, h.Fence().Open())
	})
}

func TestS10_AnAcquireThatTookEffectLateIsFoundByTheNext(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.holder()
		w.faulty.LateNext(storetest.OpAcquire, -1)
		_, err := h.Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrUnavailable)
		w.faulty.ReleaseLate()
		time.Sleep(margin + timeout)
		sent := time.Now()
		lease, err := h.Acquire(w.ctx)
		require.NoError(w, err, "the store says that this owner holds it already")
		require.Equal(w, uint64(1), lease.Epoch)
		require.True(w, h.Fence().Deadline().Equal(sent.Add(window)))
		require.Len(w, w.trail(messages.OpRenew), 1)
	})
}

func TestS10_AnEpochThatWasGivenUpIsNotAdopted(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		w.faulty.LateNext(storetest.OpRelease, -1)
		require.ErrorIs(w, h.Release(w.ctx), messages.ErrUnavailable)
		next := w.holder()
		_, err := next.Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrHeld, "waited out")
		w.faulty.LoseNext(storetest.OpAcquire, nil)
		_, err = next.Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrUnavailable, "also when it is read back")
		require.Empty(w, w.trail(messages.OpRenew))
		w.faulty.ReleaseLate()
		lease, err := next.Acquire(w.ctx)
		require.NoError(w, err)
		require.Equal(w, uint64(2), lease.Epoch)
		require.Zero(w, w.spent.Len())
		require.False(w, h.Fence().Open())
	})
}

func TestAcquireOfAHeldSessionRenews(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		time.Sleep(window)
		require.False(w, h.Fence().Open())
		lease, err := h.Acquire(w.ctx)
		require.NoError(w, err)
		require.Equal(w, uint64(1), lease.Epoch)
		require.True(w, h.Fence().Open())
	})
}
