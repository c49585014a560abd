package leaseactor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestD7_ReleaseStopsFirstAndIsIdempotent(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		open := true
		w.faulty.BeforeNext(storetest.OpRelease, func(context.Context, storetest.Call) { open = h.Fence().Open() })
		require.NoError(w, h.Release(w.ctx))
		require.False(w, open, "the holder had stopped before the store was told")
		requireFenced(w, h.Fence().Check(), messages.ReasonReleased, 1)
		require.NoError(w, h.Release(w.ctx))
		require.Len(w, w.trail(messages.OpRelease), 1)
		require.Zero(w, w.spent.Len())
		_, err := h.Renew(w.ctx)
		requireFenced(w, err, messages.ReasonReleased, 1)
		require.Equal(w, uint64(2), w.takeover().Epoch, "without waiting")
	})
}

func TestD7_AReleaseWithALostAnswerCanBeTriedAgain(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		w.faulty.LoseNext(storetest.OpRelease, nil)
		require.ErrorIs(w, h.Release(w.ctx), messages.ErrUnavailable)
		require.NoError(w, h.Release(w.ctx), "the first one took effect")
		require.Zero(w, w.spent.Len())
		requireFenced(w, h.Fence().Check(), messages.ReasonReleased, 1)
	})
}

func TestD7_ReleaseOfALeaseThatIsOverSaysSoOnce(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		time.Sleep(ttl)
		require.ErrorIs(w, h.Release(w.ctx), messages.ErrLost)
		require.NoError(w, h.Release(w.ctx))
	})
}

func TestD7_ReleaseDuringAnAcquireEndsTheSession(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.holder()
		reached, open := w.faulty.GateNext(storetest.OpAcquire)
		acquired := make(chan error)
		go func() { _, err := h.Acquire(w.ctx); acquired <- err }()
		<-reached
		released := make(chan error)
		go func() { released <- h.Release(w.ctx) }()
		time.Sleep(tick)
		open()
		requireFenced(w, <-acquired, messages.ReasonReleased, 1)
		require.NoError(w, <-released)
		require.False(w, w.live())
	})
}

func TestD8_AHolderStopsThoughTheStoreIsDown(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		w.faulty.Down(nil)
		require.ErrorIs(w, h.Release(w.ctx), messages.ErrUnavailable)
		requireFenced(w, h.Fence().Check(), messages.ReasonReleased, 1)
		w.faulty.Up()
		_, err := h.Renew(w.ctx)
		requireFenced(w, err, messages.ReasonReleased, 1)
		_, err = w.real.Acquire(w.ctx, key, other, ttl)
		require.ErrorIs(w, err, messages.ErrHeld, "the next owner waits out the lease")
		time.Sleep(ttl)
		require.Equal(w, uint64(2), w.takeover().Epoch)
	})
}

func TestD11_ForgetNeedsALeaseThatIsProvablyHeld(t *testing.T) {
	bubble(t, func(w *world) {
		requireFenced(w, w.holder().MarkForgotten(w.ctx), messages.ReasonExpiredLocally, 0)
		h := w.acquired()
		time.Sleep(window)
		requireFenced(w, h.MarkForgotten(w.ctx), messages.ReasonExpiredLocally, 1)
		require.Empty(w, w.trail(messages.OpForget), "the store would have taken it")
		_, err := h.Renew(w.ctx)
		require.NoError(w, err)
		open := true
		w.faulty.BeforeNext(storetest.OpForget, func(context.Context, storetest.Call) { open = h.Fence().Open() })
		require.NoError(w, h.MarkForgotten(w.ctx))
		require.False(w, open, "the holder had stopped before the store was told")
		require.NoError(w, h.MarkForgotten(w.ctx))
		require.Len(w, w.trail(messages.OpForget), 1)
		requireFenced(w, h.Fence().Check(), messages.ReasonReleased, 1)
		require.Equal(w, uint64(1), w.record().Floor)
		// The lease is still live, for the deletions; but no session may serve at this epoch again.
		_, err = w.holder().Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrHeld)
		require.NoError(w, h.Release(w.ctx))
		lease, err := w.holder().Acquire(w.ctx)
		require.NoError(w, err)
		require.Equal(w, uint64(2), lease.Epoch)
		require.Equal(w, uint64(1), lease.Floor)
	})
}

func TestD11_AForgottenEpochIsNotAdoptedByASessionWithoutMemory(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquired()
		require.NoError(w, w.real.MarkForgotten(w.ctx, key, owner, 1)) // by a tool, say
		_, err := w.holder().Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrHeld, "what is written at or below the floor is never restored")
	})
}

func TestD11_LostAnswersToAForget(t *testing.T) {
	for name, c := range map[string]struct {
		plan  func(w *world)
		err   error
		floor uint64
		calls int
	}{
		"took effect":             {func(w *world) { w.faulty.LoseNext(storetest.OpForget, nil) }, nil, 1, 1},
		"took none":               {func(w *world) { w.faulty.FailNext(storetest.OpForget, nil) }, nil, 1, 2},
		"took effect late":        {func(w *world) { w.faulty.LateNext(storetest.OpForget, tick) }, nil, 1, 2},
		"the store stays away":    {func(w *world) { w.faulty.Every(storetest.OpForget, storetest.Fail(nil)) }, messages.ErrUnavailable, 0, 3},
		"the floor is unreadable": {func(w *world) { w.faulty.Down(nil) }, messages.ErrUnavailable, 0, 1},
		"lost after one without effect": {func(w *world) {
			w.faulty.BeforeNext(storetest.OpForget, func(context.Context, storetest.Call) {
				require.NoError(w, w.real.Release(w.ctx, key, owner, 1))
			})
			w.faulty.FailNext(storetest.OpForget, nil)
		}, messages.ErrLost, 0, 2},
		"lost, floor set before": {func(w *world) {
			w.faulty.LoseNext(storetest.OpForget, nil)
			w.faulty.FailNext(storetest.OpRead, nil) // so that the retry meets a lease that is over
		}, messages.ErrUnavailable, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				h := w.acquired()
				c.plan(w)
				calls := 0
				w.faulty.Observe(func(e storetest.Event) {
					if e.Phase == storetest.Called && e.Call.Op == storetest.OpForget {
						calls++
					}
				})
				err := h.MarkForgotten(w.ctx)
				if c.err == nil {
					require.NoError(w, err)
				} else {
					require.ErrorIs(w, err, c.err)
				}
				require.Equal(w, c.floor, w.record().Floor)
				require.Equal(w, c.calls, calls)
				require.False(w, h.Fence().Open())
				if c.err != messages.ErrUnavailable {
					return
				}
				w.faulty.Clear()
				_, err = h.Renew(w.ctx)
				require.NoError(w, err, "the lease can be kept until it works")
				require.False(w, h.Fence().Open(), "but never to serve")
				if c.floor == 1 {
					time.Sleep(ttl)
				}
				require.NoError(w, h.MarkForgotten(w.ctx), "settled by a retry")
				require.Equal(w, uint64(1), w.record().Floor)
			})
		})
	}
}

func TestD7_NothingIsRenewedOnceAReleaseWasSent(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		require.NoError(w, h.MarkForgotten(w.ctx))
		w.faulty.FailNext(storetest.OpRelease, nil)
		require.ErrorIs(w, h.Release(w.ctx), messages.ErrUnavailable)
		_, err := h.Renew(w.ctx)
		requireFenced(w, err, messages.ReasonReleased, 1)
		require.Empty(w, w.trail(messages.OpRenew), "the lease runs out")
	})
}
