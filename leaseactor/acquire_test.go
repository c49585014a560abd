package leaseactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/leaseactor"
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

func TestTheNextSessionOfANodeTakesOverFromTheOneBefore(t *testing.T) {
	bubble(t, func(w *world) {
		first := w.acquired() // its actor crashes
		next := w.holder()
		lease, err := next.Acquire(w.ctx)
		require.NoError(w, err)
		require.Equal(w, uint64(1), lease.Epoch, "the lease is still this process's")
		requireFenced(w, first.Fence().Check(), messages.ReasonReleased, 1)
		require.NoError(w, next.Fence().Check())
		// What is left of the first must not end the lease under the second.
		require.NoError(w, first.Release(w.ctx))
		requireFenced(w, first.MarkForgotten(w.ctx), messages.ReasonReleased, 1)
		_, err = first.Renew(w.ctx)
		requireFenced(w, err, messages.ReasonReleased, 1)
		require.True(w, w.live())
		require.Len(w, w.trail(messages.OpRenew), 1)
		require.NoError(w, next.Release(w.ctx))
		require.False(w, w.live())
		require.NoError(w, first.Release(w.ctx), "it has nothing to release, also when its successor is gone")
		require.Len(w, w.trail(messages.OpRelease), 1)
	})
}

func TestASessionWhoseGrantWasAdoptedByTheNextOneEnds(t *testing.T) {
	for name, after := range map[string]time.Duration{"in time": 30 * time.Millisecond, "too late to be used": window} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				cfg := w.config()
				cfg.CallTimeout = ttl
				slow, err := leaseactor.NewHolder(cfg)
				require.NoError(w, err)
				w.faulty.Next(storetest.OpAcquire, storetest.DelayAnswer(after))
				failed := make(chan error)
				go func() { _, err := slow.Acquire(w.ctx); failed <- err }()
				time.Sleep(10 * time.Millisecond)
				next := w.holder()
				_, err = next.Acquire(w.ctx)
				require.NoError(w, err)
				require.Error(w, <-failed)
				require.False(w, slow.Fence().Open())
				require.True(w, w.live(), "and is not handed back")
			})
		})
	}
}
