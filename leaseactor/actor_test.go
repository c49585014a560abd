package leaseactor_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
	"github.com/leasehold/leasehold/stores/storetest"
)

// desk runs an actor and collects its reports.
type desk struct {
	*world
	actor   *leaseactor.Actor
	ref     *mailbox.Ref
	reports chan any
}

func withActor(t *testing.T, change func(*leaseactor.Config), f func(d *desk)) {
	t.Helper()
	bubble(t, func(w *world) {
		d := &desk{world: w, reports: make(chan any, 1000)}
		cfg := w.config()
		if change != nil {
			change(&cfg)
		}
		var err error
		d.actor, err = leaseactor.New(cfg, func(r any) { d.reports <- r })
		require.NoError(w, err)
		system := mailbox.NewSystem(slog.New(slog.DiscardHandler))
		d.ref = system.Spawn(d.actor)
		defer func() {
			require.NoError(w, system.Shutdown(w.ctx))
			time.Sleep(2 * time.Second) // the library's guards tick once
		}()
		f(d)
	})
}

// next returns the next report, which must be a T.
func next[T any](d *desk) T {
	d.Helper()
	select {
	case r := <-d.reports:
		out, ok := r.(T)
		require.True(d, ok, "reported %T %v, want %T", r, r, out)
		return out
	case <-time.After(time.Minute):
		require.Fail(d, "no report")
	}
	panic("unreachable")
}

func (d *desk) quiet() {
	d.Helper()
	synctest.Wait()
	require.Empty(d, d.reports)
}

func (d *desk) acquire() {
	d.Helper()
	d.ref.Send(leaseactor.Acquire{})
	require.Equal(d, uint64(1), next[leaseactor.Acquired](d).Lease.Epoch)
	require.NoError(d, d.actor.Fence().Check())
}

func TestActorAWholeLife(t *testing.T) {
	withActor(t, nil, func(d *desk) {
		d.acquire()
		d.ref.Send(leaseactor.Renew{Tag: 3})
		r := next[leaseactor.Renewed](d)
		require.Equal(d, uint64(3), r.Tag)
		require.Equal(d, r.Lease, d.actor.Lease())
		d.ref.Send(leaseactor.Forget{})
		require.NoError(d, next[leaseactor.Forgotten](d).Err)
		require.False(d, d.actor.Fence().Open())
		d.ref.Send(leaseactor.Release{})
		require.NoError(d, next[leaseactor.Released](d).Err)
		time.Sleep(ttl)
		d.quiet() // a fence that was closed does not expire
		require.Equal(d, uint64(1), d.record().Floor)
	})
}

func TestActorAcquireFailed(t *testing.T) {
	withActor(t, nil, func(d *desk) {
		d.takeover()
		d.ref.Send(leaseactor.Acquire{})
		require.ErrorIs(d, next[leaseactor.AcquireFailed](d).Err, messages.ErrHeld)
	})
}

func TestS9_TagsOfARenewalWereReceivedBeforeItWasSent(t *testing.T) {
	withActor(t, nil, func(d *desk) {
		d.acquire()
		reached, open := d.faulty.GateNext(storetest.OpRenew)
		d.ref.Send(leaseactor.Renew{Tag: 1})
		<-reached
		for tag := range uint64(4) {
			d.ref.Send(leaseactor.Renew{Tag: 2 + tag})
		}
		d.quiet()
		open()
		require.Equal(d, uint64(1), next[leaseactor.Renewed](d).Tag, "it was sent before the others were received")
		require.Equal(d, uint64(5), next[leaseactor.Renewed](d).Tag)
		d.quiet()
		require.Len(d, d.trail(messages.OpRenew), 2, "what came meanwhile was joined")
		d.faulty.FailNext(storetest.OpRenew, nil)
		d.ref.Send(leaseactor.Renew{Tag: 6})
		require.ErrorIs(d, next[leaseactor.RenewFailed](d).Err, messages.ErrUnavailable)
		d.ref.Send(leaseactor.Renew{})
		require.Equal(d, uint64(6), next[leaseactor.Renewed](d).Tag, "the next one was sent after it, too")
	})
}

func TestD3_ExpiredAndResumedAreReportedOnceForEachClosing(t *testing.T) {
	withActor(t, nil, func(d *desk) {
		d.acquire()
		for range 2 {
			start := time.Now()
			d.ref.Send(leaseactor.Renew{})
			next[leaseactor.Renewed](d)
			next[leaseactor.Expired](d)
			require.Equal(d, window, time.Since(start))
			requireFenced(d, d.actor.Fence().Check(), messages.ReasonExpiredLocally, 1)
			d.faulty.FailNext(storetest.OpRenew, nil)
			d.ref.Send(leaseactor.Renew{})
			next[leaseactor.RenewFailed](d)
			d.quiet()
			d.ref.Send(leaseactor.Renew{})
			next[leaseactor.Renewed](d)
			next[leaseactor.Resumed](d)
			require.NoError(d, d.actor.Fence().Check())
		}
	})
}

func TestD4_LostIsReported(t *testing.T) {
	withActor(t, nil, func(d *desk) {
		d.acquire()
		time.Sleep(ttl)
		next[leaseactor.Expired](d)
		d.takeover()
		d.ref.Send(leaseactor.Renew{})
		require.ErrorIs(d, next[leaseactor.Lost](d).Err, messages.ErrLost)
		d.ref.Send(leaseactor.Renew{})
		requireFenced(d, next[leaseactor.RenewFailed](d).Err, messages.ReasonLeaseLost, 1)
	})
}

func TestD7_ReleaseStopsAtOnceWhileARequestIsInFlight(t *testing.T) {
	withActor(t, nil, func(d *desk) {
		d.acquire()
		reached, open := d.faulty.GateNext(storetest.OpRenew)
		d.ref.Send(leaseactor.Renew{})
		<-reached
		d.ref.Send(leaseactor.Release{})
		synctest.Wait()
		requireFenced(d, d.actor.Fence().Check(), messages.ReasonReleased, 1)
		require.True(d, d.live())
		open()
		next[leaseactor.Renewed](d)
		requireFenced(d, d.actor.Fence().Check(), messages.ReasonReleased, 1)
		require.NoError(d, next[leaseactor.Released](d).Err)
		require.False(d, d.live())
	})
}

func TestD8_AReleaseCanBeTriedAgainThroughTheActor(t *testing.T) {
	withActor(t, nil, func(d *desk) {
		d.acquire()
		d.faulty.FailNext(storetest.OpRelease, nil)
		d.ref.Send(leaseactor.Release{})
		require.ErrorIs(d, next[leaseactor.Released](d).Err, messages.ErrUnavailable)
		d.ref.Send(leaseactor.Release{})
		require.NoError(d, next[leaseactor.Released](d).Err)
		require.False(d, d.live())
	})
}

func TestL3_BackgroundRenewalHoldsOverManyTerms(t *testing.T) {
	withActor(t, func(c *leaseactor.Config) { c.RenewEvery = ttl / 3 }, func(d *desk) {
		d.acquire()
		for range 30 {
			require.Equal(d, uint64(1), next[leaseactor.Renewed](d).Lease.Epoch)
			require.NoError(d, d.actor.Fence().Check())
		}
		_, err := d.real.Acquire(d.ctx, key, other, ttl)
		require.ErrorIs(d, err, messages.ErrHeld)
		d.faulty.Down(nil)
		next[leaseactor.RenewFailed](d)
		d.faulty.Up()
		next[leaseactor.Renewed](d)
		d.ref.Send(leaseactor.Release{})
		require.NoError(d, next[leaseactor.Released](d).Err)
		time.Sleep(10 * ttl)
		d.quiet() // it renews no more
	})
}

func TestL3_BackgroundRenewalEndsWhenTheFenceIsClosedForGood(t *testing.T) {
	withActor(t, func(c *leaseactor.Config) { c.RenewEvery = ttl / 3 }, func(d *desk) {
		d.acquire()
		d.actor.Fence().Close(messages.ReasonSlotTaken)
		requireFenced(d, next[leaseactor.RenewFailed](d).Err, messages.ReasonSlotTaken, 1)
		time.Sleep(10 * ttl)
		d.quiet()
	})
}

func TestActorStopsThoughARequestHangs(t *testing.T) {
	withActor(t, func(c *leaseactor.Config) { c.CallTimeout = ttl }, func(d *desk) {
		d.acquire()
		d.faulty.Freeze()
		d.ref.Send(leaseactor.Renew{})
		synctest.Wait()
		start := time.Now()
		d.ref.Stop()
		<-d.ref.Done()
		require.Zero(d, time.Since(start))
		require.True(d, d.actor.Fence().Open(), "the fence runs out by itself")
		time.Sleep(window)
		require.False(d, d.actor.Fence().Open())
	})
}

func TestActorRefusesWhatItCannotCarryOut(t *testing.T) {
	bubble(t, func(w *world) {
		var reports []any
		a, err := leaseactor.New(w.config(), func(r any) {
			reports = append(reports, r)
			if len(reports) == 1 {
				panic("our own bug")
			}
		})
		require.NoError(w, err)
		system := mailbox.NewSystem(slog.New(slog.DiscardHandler))
		reached, open := w.faulty.GateNext(storetest.OpAcquire)
		ref := system.Spawn(a)
		ref.Send(leaseactor.Acquire{})
		<-reached
		open()
		<-ref.Done()
		require.NoError(w, system.Shutdown(context.Background()))
		time.Sleep(2 * time.Second)
		for _, m := range []any{leaseactor.Acquire{}, leaseactor.Renew{}, leaseactor.Release{}, leaseactor.Forget{}} {
			a.Refuse(nil, m)
		}
		require.Len(w, reports, 5)
		require.ErrorIs(w, reports[1].(leaseactor.AcquireFailed).Err, messages.ErrClosed)
		require.ErrorIs(w, reports[2].(leaseactor.RenewFailed).Err, messages.ErrClosed)
		require.ErrorIs(w, reports[3].(leaseactor.Released).Err, messages.ErrClosed)
		require.ErrorIs(w, reports[4].(leaseactor.Forgotten).Err, messages.ErrClosed)
		require.False(w, a.Fence().Open(), "a refused release closes the fence all the same")
	})
}
