package leaseactor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestD1_HolderFencesItselfByItsOwnClock(t *testing.T) {
	bubble(t, func(w *world) {
		w.faulty.SlowNext(storetest.OpAcquire, 20*time.Millisecond)
		sent := time.Now()
		h := w.acquired()
		require.True(w, h.Fence().Deadline().Equal(sent.Add(window)), "the window runs from the sending, not from the answer")
		time.Sleep(time.Until(sent.Add(window)) - time.Nanosecond)
		require.NoError(w, h.Fence().Check())
		time.Sleep(time.Nanosecond)
		requireFenced(w, h.Fence().Check(), messages.ReasonExpiredLocally, 1)
		require.True(w, w.live(), "the store still lists the lease")
	})
}

func TestD2_RenewalRestartsTheWindowFromItsSending(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		time.Sleep(100 * time.Millisecond)
		sent := time.Now()
		w.faulty.Next(storetest.OpRenew, storetest.DelayAnswer(30*time.Millisecond))
		lease, err := h.Renew(w.ctx)
		require.NoError(w, err)
		require.Equal(w, uint64(1), lease.Epoch)
		require.True(w, h.Fence().Deadline().Equal(sent.Add(window)))
		require.Equal(w, lease, h.Lease())
		require.Equal(w, lease, w.record())
	})
}

func TestD3_UnreachableStoreThenResume(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		w.faulty.Down(nil)
		time.Sleep(window - tick)
		_, err := h.Renew(w.ctx)
		require.ErrorIs(w, err, messages.ErrUnavailable)
		require.NoError(w, h.Fence().Check(), "a holder goes on to its deadline")
		time.Sleep(tick)
		requireFenced(w, h.Fence().Check(), messages.ReasonExpiredLocally, 1)
		w.faulty.Up()
		_, err = h.Renew(w.ctx)
		require.NoError(w, err)
		require.NoError(w, h.Fence().Check(), "a renewal at the same epoch resumes it")
	})
}

func TestD3_ATimedOutRenewalOpensNothing(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		deadline := h.Fence().Deadline()
		w.faulty.Next(storetest.OpRenew, storetest.HangLate(2*timeout))
		start := time.Now()
		_, err := h.Renew(w.ctx)
		require.ErrorIs(w, err, messages.ErrUnavailable)
		require.Equal(w, timeout, time.Since(start), "one request is bounded by CallTimeout")
		time.Sleep(2 * timeout)
		require.Len(w, w.trail(messages.OpRenew), 1, "it took effect late")
		require.True(w, h.Fence().Deadline().Equal(deadline))
		ctx, cancel := context.WithTimeout(w.ctx, timeout/2)
		defer cancel()
		w.faulty.HangNext(storetest.OpRenew)
		_, err = h.Renew(ctx)
		require.ErrorIs(w, err, messages.ErrUnavailable)
		require.ErrorIs(w, err, context.DeadlineExceeded, "and by the caller's context")
	})
}

func TestD3_ARenewalAnsweredAfterItsOwnWindowOpensNothing(t *testing.T) {
	bubble(t, func(w *world) {
		cfg := w.config()
		cfg.CallTimeout = 2 * ttl
		h, err := leaseactor.NewHolder(cfg)
		require.NoError(w, err)
		_, err = h.Acquire(w.ctx)
		require.NoError(w, err)
		w.faulty.Next(storetest.OpRenew, storetest.DelayAnswer(window))
		_, err = h.Renew(w.ctx)
		require.NoError(w, err)
		requireFenced(w, h.Fence().Check(), messages.ReasonExpiredLocally, 1)
	})
}

func TestD4_RefusedRenewalEndsTheHolder(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		// Someone with access to the store ends the lease under the holder.
		require.NoError(w, w.real.Release(w.ctx, key, owner, 1))
		_, err := h.Renew(w.ctx)
		require.ErrorIs(w, err, messages.ErrLost)
		requireFenced(w, h.Fence().Check(), messages.ReasonLeaseLost, 1)
		calls := 0
		w.faulty.Observe(func(storetest.Event) { calls++ })
		_, err = h.Renew(w.ctx)
		requireFenced(w, err, messages.ReasonLeaseLost, 1)
		_, err = h.Acquire(w.ctx)
		requireFenced(w, err, messages.ReasonLeaseLost, 1)
		require.NoError(w, h.Release(w.ctx))
		requireFenced(w, h.MarkForgotten(w.ctx), messages.ReasonLeaseLost, 1)
		require.Zero(w, calls, "nothing is sent for a lease that is gone")
	})
}

func TestD5_Takeover(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		time.Sleep(ttl - tick)
		requireFenced(w, h.Fence().Check(), messages.ReasonExpiredLocally, 1)
		_, err := w.real.Acquire(w.ctx, key, other, ttl)
		require.ErrorIs(w, err, messages.ErrHeld, "not before the lease is over")
		time.Sleep(tick)
		require.Equal(w, uint64(2), w.takeover().Epoch)
		_, err = h.Renew(w.ctx)
		require.ErrorIs(w, err, messages.ErrLost)
		requireFenced(w, h.Fence().Check(), messages.ReasonLeaseLost, 1)
		_, err = w.holder().Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrHeld)
		var e *messages.Error
		require.ErrorAs(w, err, &e)
		require.Equal(w, other, e.Owner)
		require.Equal(w, uint64(2), e.Epoch)
	})
}

func TestD6_FrozenClockIsCaughtByTheStore(t *testing.T) {
	bubble(t, func(w *world) {
		cfg := w.config()
		cfg.Now = storetest.NewManualClock(time.Now()).Now // stands still
		h, err := leaseactor.NewHolder(cfg)
		require.NoError(w, err)
		_, err = h.Acquire(w.ctx)
		require.NoError(w, err)
		time.Sleep(ttl)
		w.takeover()
		require.NoError(w, h.Fence().Check(), "the declared limit: the holder cannot know")
		_, err = h.Renew(w.ctx)
		require.ErrorIs(w, err, messages.ErrLost)
		requireFenced(w, h.Fence().Check(), messages.ReasonLeaseLost, 1)
	})
}

func TestD9_AnAcquireThatUsedUpTheWindowIsHandedBack(t *testing.T) {
	bubble(t, func(w *world) {
		cfg := w.config()
		cfg.CallTimeout = ttl
		h, err := leaseactor.NewHolder(cfg)
		require.NoError(w, err)
		w.faulty.Next(storetest.OpAcquire, storetest.DelayAnswer(window))
		ctx, cancel := context.WithTimeout(w.ctx, window+tick)
		defer cancel()
		_, err = h.Acquire(ctx)
		require.ErrorIs(w, err, messages.ErrLost)
		require.False(w, h.Fence().Open())
		require.False(w, w.live(), "handed back")
		require.Zero(w, w.spent.Len())
		require.Equal(w, uint64(2), w.takeover().Epoch, "at once")
	})
}

func TestD9_AHandBackWithoutAnswerIsNeverAdopted(t *testing.T) {
	bubble(t, func(w *world) {
		cfg := w.config()
		cfg.CallTimeout = ttl
		h, err := leaseactor.NewHolder(cfg)
		require.NoError(w, err)
		w.faulty.Next(storetest.OpAcquire, storetest.DelayAnswer(window))
		w.faulty.LateNext(storetest.OpRelease, -1)
		_, err = h.Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrLost)
		require.Equal(w, 1, w.spent.Len())
		_, err = h.Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrHeld, "waited out, for the release may land at any time")
		w.faulty.ReleaseLate()
		lease, err := h.Acquire(w.ctx)
		require.NoError(w, err)
		require.Equal(w, uint64(2), lease.Epoch)
		require.Zero(w, w.spent.Len(), "a later epoch was granted")
	})
}

func TestD10_OneRequestAtATimeInCallOrder(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		var mu sync.Mutex
		var order []string
		flying, most := 0, 0
		w.faulty.Observe(func(e storetest.Event) {
			mu.Lock()
			defer mu.Unlock()
			switch e.Phase {
			case storetest.Called:
				order = append(order, string(e.Call.Op))
				flying++
				most = max(most, flying)
			case storetest.Answered:
				flying--
			}
		})
		w.faulty.Slow(storetest.OpAny, 10*time.Millisecond)
		var callers sync.WaitGroup
		for i := range 3 {
			callers.Go(func() { _, err := h.Renew(w.ctx); require.NoError(w, err, i) })
			synctest.Wait()
		}
		callers.Go(func() { require.NoError(w, h.MarkForgotten(w.ctx)) })
		synctest.Wait()
		callers.Go(func() { _, err := h.Renew(w.ctx); require.NoError(w, err) })
		synctest.Wait()
		impatient, cancel := context.WithTimeout(w.ctx, tick)
		defer cancel()
		_, err := h.Renew(impatient)
		require.ErrorIs(w, err, messages.ErrDeadlineExceeded, "a caller need not wait for its turn")
		callers.Wait()
		callers.Go(func() { _, err := h.Renew(w.ctx); require.NoError(w, err) })
		synctest.Wait()
		callers.Go(func() { require.NoError(w, h.Release(w.ctx)) })
		synctest.Wait()
		callers.Go(func() { _, err := h.Renew(w.ctx); require.ErrorIs(w, err, messages.ErrFenced) })
		callers.Wait()
		require.Equal(w, 1, most)
		require.Equal(w, []string{"Renew", "Renew", "Renew", "MarkForgotten", "Renew", "Renew", "Release"}, order)
	})
}

func TestD10_AReleaseStopsTheHolderBeforeItsTurn(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		reached, open := w.faulty.GateNext(storetest.OpRenew)
		var callers sync.WaitGroup
		callers.Go(func() { _, err := h.Renew(w.ctx); require.NoError(w, err) })
		<-reached
		callers.Go(func() { require.NoError(w, h.Release(w.ctx)) })
		synctest.Wait()
		requireFenced(w, h.Fence().Check(), messages.ReasonReleased, 1)
		open()
		callers.Wait()
		requireFenced(w, h.Fence().Check(), messages.ReasonReleased, 1)
		require.False(w, w.live())
	})
}

func TestD12_RefusedBeforeTheStoreIsTouched(t *testing.T) {
	bubble(t, func(w *world) {
		w.faulty.Observe(func(e storetest.Event) { w.Errorf("the store was called: %v", e.Call.Op) })
		for name, c := range map[string]struct {
			change func(*leaseactor.Config)
			code   messages.Code
		}{
			"margin below 0":  {func(c *leaseactor.Config) { c.Margin = -1 }, messages.CodeOutOfRange},
			"margin = ttl":    {func(c *leaseactor.Config) { c.Margin = c.TTL }, messages.CodeOutOfRange},
			"ttl 1 ms":        {func(c *leaseactor.Config) { c.TTL, c.Margin = time.Millisecond, 0 }, messages.CodeOutOfRange},
			"ttl 24 h":        {func(c *leaseactor.Config) { c.TTL = 24 * time.Hour }, messages.CodeOutOfRange},
			"ttl 100.5 ms":    {func(c *leaseactor.Config) { c.TTL = 100500 * time.Microsecond }, messages.CodeOutOfRange},
			"no owner":        {func(c *leaseactor.Config) { c.Owner = "" }, messages.CodeOutOfRange},
			"blank owner":     {func(c *leaseactor.Config) { c.Owner = "  " }, messages.CodeOutOfRange},
			"long owner":      {func(c *leaseactor.Config) { c.Owner = strings.Repeat("x", 257) }, messages.CodeOutOfRange},
			"call timeout":    {func(c *leaseactor.Config) { c.CallTimeout = -1 }, messages.CodeOutOfRange},
			"interval":        {func(c *leaseactor.Config) { c.RenewEvery = -1 }, messages.CodeOutOfRange},
			"malformed key":   {func(c *leaseactor.Config) { c.Key.Tenant = "t-1" }, messages.CodeInvalidID},
			"no store":        {func(c *leaseactor.Config) { c.Store = nil }, messages.CodeInvalidArgument},
			"no spent memory": {func(c *leaseactor.Config) { c.Spent = nil }, messages.CodeInvalidArgument},
		} {
			cfg := w.config()
			c.change(&cfg)
			_, err := leaseactor.NewHolder(cfg)
			require.Equal(w, c.code, messages.CodeOf(err), name)
			_, err = leaseactor.New(cfg, func(any) {})
			require.Equal(w, c.code, messages.CodeOf(err), name)
		}
	})
}

func TestD13_EveryFailureIsTypedAlsoAcrossTheWire(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		cfg := w.config()
		cfg.Owner = other
		b, err := leaseactor.NewHolder(cfg)
		require.NoError(w, err)
		_, held := b.Acquire(w.ctx)
		w.faulty.FailNext(storetest.OpRenew, fmt.Errorf("dial: %w", errors.New("refused")))
		_, unavailable := h.Renew(w.ctx)
		require.NoError(w, w.real.Release(w.ctx, key, owner, 1))
		_, lost := h.Renew(w.ctx)
		for _, c := range []struct{ err, target error }{
			{held, messages.ErrHeld}, {unavailable, messages.ErrUnavailable}, {lost, messages.ErrLost},
			{h.Fence().Check(), messages.ErrFenced}, {h.Fence().Check(), &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonLeaseLost}},
		} {
			require.ErrorIs(w, c.err, c.target)
			var here, there *messages.Error
			require.ErrorAs(w, c.err, &here)
			wire, err := json.Marshal(here)
			require.NoError(w, err)
			there = new(messages.Error)
			require.NoError(w, json.Unmarshal(wire, there))
			require.ErrorIs(w, there, c.target)
			require.Equal(w, here.Epoch, there.Epoch)
		}
	})
}

func TestD14_ARestartedNodeIsNotItsPredecessor(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquired()
		cfg := w.config()
		cfg.Owner = messages.NewOwner("node-a", "2")
		require.Equal(w, messages.OwnerNode(owner), messages.OwnerNode(cfg.Owner))
		h, err := leaseactor.NewHolder(cfg)
		require.NoError(w, err)
		_, err = h.Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrHeld)
		require.False(w, h.Fence().Open())
	})
}
