package leaseactor_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestFenceIsClosedUntilItIsOpened(t *testing.T) {
	f := leaseactor.NewFence(nil)
	require.False(t, f.Open())
	require.ErrorIs(t, f.Check(), messages.ErrFenced)
	require.True(t, f.Deadline().IsZero())
	require.Empty(t, f.Reason())
}

func TestFenceClosesForEverAndTheFirstReasonStays(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		f := h.Fence()
		var closers sync.WaitGroup
		for range 8 {
			closers.Go(func() { f.Close(messages.ReasonSlotTaken) })
			closers.Go(func() { _ = f.Check() })
		}
		closers.Wait()
		f.Close(messages.ReasonReleased)
		require.Equal(w, messages.ReasonSlotTaken, f.Reason())
		requireFenced(w, f.Check(), messages.ReasonSlotTaken, 1)
		_, err := h.Renew(w.ctx)
		requireFenced(w, err, messages.ReasonSlotTaken, 1)
		require.NoError(w, h.Release(w.ctx), "what is fenced can still be given back")
		require.False(w, w.live())
		requireFenced(w, f.Check(), messages.ReasonSlotTaken, 1)
	})
}

// A wall clock that is set back must not lengthen the window: only readings of the passed clock count,
// and those of time.Now are monotonic. A manual clock has no monotonic part, so it shows the rule.
func TestD1_OnAManualClock(t *testing.T) {
	bubble(t, func(w *world) {
		clock := storetest.NewManualClock(time.Now())
		cfg := w.config()
		cfg.Now = clock.Now
		h, err := leaseactor.NewHolder(cfg)
		require.NoError(w, err)
		_, err = h.Acquire(w.ctx)
		require.NoError(w, err)
		clock.Advance(window - 1)
		require.NoError(w, h.Fence().Check())
		require.True(w, h.Fence().Deadline().Equal(clock.Now().Add(1)))
		clock.Advance(1)
		requireFenced(w, h.Fence().Check(), messages.ReasonExpiredLocally, 1)
	})
}

// The sending time is the reading before the request, and nothing that happens at the store can come
// before it.
func TestD1_SentAtIsReadBeforeTheRequestLeaves(t *testing.T) {
	bubble(t, func(w *world) {
		clock := storetest.NewTrippingClock(time.Now)
		cfg := w.config()
		cfg.Now = clock.Now
		h, err := leaseactor.NewHolder(cfg)
		require.NoError(w, err)
		before, at := clock.Reads(), 0
		w.faulty.BeforeNext(storetest.OpAcquire, func(context.Context, storetest.Call) { at = clock.Reads() })
		_, err = h.Acquire(w.ctx)
		require.NoError(w, err)
		require.Equal(w, before+1, at, "one reading before the store is called")
	})
}

func TestFenceAllocatesNothingWhileItIsOpen(t *testing.T) {
	bubble(t, func(w *world) {
		f := w.acquired().Fence()
		require.Zero(w, testing.AllocsPerRun(100, func() {
			if f.Check() != nil {
				w.Fatal("closed")
			}
		}))
	})
}

func BenchmarkFenceCheck(b *testing.B) {
	f := leaseactor.OpenFence(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Check(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFenceCheckParallel(b *testing.B) {
	f := leaseactor.OpenFence(time.Hour)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if f.Check() != nil {
				panic("closed")
			}
		}
	})
}
