package leaseactor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// The rules of adoption, of a forget and of epochs that were given up, where the second request is the slow one: what was true
// when it was sent is not true any more when its answer comes.

// patient returns a holder that waits for slow answers.
func (w *world) patient() *leaseactor.Holder {
	w.Helper()
	cfg := w.config()
	cfg.CallTimeout = 10 * ttl
	h, err := leaseactor.NewHolder(cfg)
	require.NoError(w, err)
	return h
}

// unanswered gives an epoch up by a release that may take effect at any time.
func (w *world) unanswered(h *leaseactor.Holder) {
	w.Helper()
	w.faulty.LateNext(storetest.OpRelease, -1)
	require.ErrorIs(w, h.Release(w.ctx), messages.ErrUnavailable)
}

// later runs f, and returns its error on the channel.
func later(f func() error) <-chan error {
	out := make(chan error, 1)
	go func() { out <- f() }()
	return out
}

// Whatever opens the fence, its window runs from the sending of that request: not from its answer, and not from that of an
// earlier one.
func TestD2_EveryWindowRunsFromTheSendingOfTheRequestThatOpenedIt(t *testing.T) {
	for name, open := range map[string]func(*world) *leaseactor.Holder{
		"an acquire": func(w *world) *leaseactor.Holder {
			h := w.holder()
			_, err := h.Acquire(w.ctx)
			require.NoError(w, err)
			return h
		},
		"a renewal": func(w *world) *leaseactor.Holder {
			h := w.holder()
			_, err := h.Acquire(w.ctx)
			require.NoError(w, err)
			_, err = h.Renew(w.ctx)
			require.NoError(w, err)
			return h
		},
		"an acquire that renews": func(w *world) *leaseactor.Holder {
			h := w.holder()
			for range 2 {
				_, err := h.Acquire(w.ctx)
				require.NoError(w, err)
			}
			return h
		},
		"an adoption after a lost answer": func(w *world) *leaseactor.Holder {
			h := w.holder()
			w.faulty.LoseNext(storetest.OpAcquire, nil)
			_, err := h.Acquire(w.ctx)
			require.NoError(w, err)
			return h
		},
		"an adoption of what is held already": func(w *world) *leaseactor.Holder {
			_, err := w.holder().Acquire(w.ctx)
			require.NoError(w, err)
			h := w.holder()
			_, err = h.Acquire(w.ctx)
			require.NoError(w, err)
			return h
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				var sent time.Time
				w.faulty.Observe(func(e storetest.Event) {
					if e.Phase == storetest.Called && e.Call.Op != storetest.OpRead {
						sent = time.Now()
					}
				})
				// The rules that open plans come after this one, and would not be reached.
				w.faulty.Program(func(storetest.Call) storetest.Action {
					return storetest.Action{Delay: 7 * time.Millisecond, AnswerDelay: 11 * time.Millisecond}
				})
				h := open(w)
				require.Equal(w, sent.Add(window), h.Fence().Deadline())
			})
		})
	}
}

// A renewal that adopts is as good as an acquire: used up, the lease is handed back (D9).
func TestD9_AnAdoptionThatUsedUpItsWindowIsHandedBack(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.patient()
		w.faulty.LoseNext(storetest.OpAcquire, nil)
		w.faulty.Next(storetest.OpRenew, storetest.DelayAnswer(window))
		_, err := h.Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrLost)
		require.False(w, h.Fence().Open())
		require.False(w, w.live(), "and the next owner need not wait")
		require.Zero(w, w.spent.Len())
	})
}

// The floor is set when the record says so, and not when it says something that only looks as if.
func TestD11_OnlyTheFloorSaysThatTheFloorIsSet(t *testing.T) {
	over := func(t *testing.T, who string, forgets bool) (calls int, floor uint64, err error) {
		bubble(t, func(w *world) {
			h := w.patient()
			_, err2 := h.Acquire(w.ctx)
			require.NoError(w, err2)
			w.faulty.FailNext(storetest.OpForget, nil)
			w.faulty.SlowNext(storetest.OpRead, ttl+2*tick)
			w.faulty.Observe(func(e storetest.Event) {
				if e.Phase == storetest.Called && e.Call.Op == storetest.OpForget {
					calls++
				}
			})
			forgotten := later(func() error { return h.MarkForgotten(w.ctx) })
			time.Sleep(ttl + tick)
			lease, err2 := w.real.Acquire(w.ctx, key, who, ttl)
			require.NoError(w, err2)
			if forgets {
				require.NoError(w, w.real.MarkForgotten(w.ctx, key, who, lease.Epoch))
			}
			err = <-forgotten
			floor = w.record().Floor
		})
		return calls, floor, err
	}
	for name, who := range map[string]string{"of another owner": other, "of this owner's next session": owner} {
		t.Run("a later epoch "+name, func(t *testing.T) {
			calls, floor, err := over(t, who, false)
			require.ErrorIs(t, err, messages.ErrLost, "nothing was forgotten")
			require.Equal(t, 1, calls, "what cannot be granted any more is not sent again")
			require.Zero(t, floor)
			calls, floor, err = over(t, who, true)
			require.NoError(t, err, "a later floor is a floor")
			require.Equal(t, 1, calls)
			require.Equal(t, uint64(2), floor)
		})
	}
	t.Run("an earlier floor", func(t *testing.T) {
		bubble(t, func(w *world) {
			first := w.acquired()
			require.NoError(w, first.MarkForgotten(w.ctx))
			require.NoError(w, first.Release(w.ctx))
			h := w.acquired()
			w.faulty.FailNext(storetest.OpForget, nil)
			require.NoError(w, h.MarkForgotten(w.ctx))
			require.Equal(w, uint64(2), w.record().Floor)
			require.Len(w, w.trail(messages.OpForget), 2)
		})
	})
}

// The end of an epoch that is learned late says nothing about later ones: neither that a later one was not given up, nor that
// nobody has it.
func TestD7_AnEndThatIsLearnedLateIsThatOfItsOwnEpoch(t *testing.T) {
	for name, op := range map[string]struct {
		op  storetest.Op
		end func(*leaseactor.Holder, context.Context) error
	}{
		"release": {storetest.OpRelease, (*leaseactor.Holder).Release},
		"forget":  {storetest.OpForget, (*leaseactor.Holder).MarkForgotten},
		"renewal": {storetest.OpRenew, func(h *leaseactor.Holder, ctx context.Context) error { _, err := h.Renew(ctx); return err }},
	} {
		// first learns that epoch 1 is over when open is called.
		begin := func(w *world) (open func()) {
			first := w.patient()
			_, err := first.Acquire(w.ctx)
			require.NoError(w, err)
			reached, gate := w.faulty.GateNext(op.op)
			ended := later(func() error { return op.end(first, w.ctx) })
			<-reached
			time.Sleep(ttl + tick)
			return func() {
				gate()
				require.ErrorIs(w, <-ended, messages.ErrLost)
			}
		}
		t.Run(name+" beside a later epoch that was given up", func(t *testing.T) {
			bubble(t, func(w *world) {
				open := begin(w)
				second := w.acquired()
				require.Equal(w, uint64(2), second.Lease().Epoch)
				w.unanswered(second)
				open()
				require.Equal(w, 1, w.spent.Len())
				_, err := w.holder().Acquire(w.ctx)
				require.ErrorIs(w, err, messages.ErrHeld, "epoch 2 may end at any time, and is waited out")
				require.Empty(w, w.trail(messages.OpRenew))
			})
		})
		t.Run(name+" beside a later epoch that is held", func(t *testing.T) {
			bubble(t, func(w *world) {
				open := begin(w)
				second := w.acquired() // its actor crashes
				open()
				require.NoError(w, second.Fence().Check())
				third := w.acquired()
				require.Equal(w, uint64(2), third.Lease().Epoch)
				requireFenced(w, second.Fence().Check(), messages.ReasonReleased, 2)
				require.NoError(w, second.Release(w.ctx))
				require.True(w, w.live(), "the release of one that was succeeded is not sent")
			})
		})
	}
}

// The same for a grant that is handed back because it came too late (D9).
func TestD9_AHandBackSaysNothingOfLaterEpochs(t *testing.T) {
	bubble(t, func(w *world) {
		first, second := w.patient(), w.patient()
		w.faulty.Next(storetest.OpAcquire, storetest.DelayAnswer(4*ttl))
		tooLate := later(func() error { _, err := first.Acquire(w.ctx); return err })
		time.Sleep(2 * ttl)
		w.faulty.Next(storetest.OpAcquire, storetest.DelayAnswer(2*ttl-2*tick))
		w.faulty.LateNext(storetest.OpRelease, -1)
		_, err := second.Acquire(w.ctx)
		require.ErrorIs(w, err, messages.ErrLost)
		require.Equal(w, uint64(2), w.record().Epoch)
		require.Equal(w, 1, w.spent.Len())
		require.ErrorIs(w, <-tooLate, messages.ErrLost)
		require.Equal(w, 1, w.spent.Len(), "epoch 2 is given up, and not confirmed")
	})
}

// A record that is read back late is not adopted over a later epoch.
func TestS10_AReadBackThatComesLateDoesNotEndALaterSession(t *testing.T) {
	bubble(t, func(w *world) {
		slow := w.patient()
		w.faulty.LoseNext(storetest.OpAcquire, nil)
		w.faulty.Next(storetest.OpRead, storetest.DelayAnswer(2*ttl))
		failed := later(func() error { _, err := slow.Acquire(w.ctx); return err })
		time.Sleep(2*ttl - tick)
		next := w.acquired()
		require.Equal(w, uint64(2), next.Lease().Epoch)
		require.ErrorIs(w, <-failed, messages.ErrUnavailable)
		require.False(w, slow.Fence().Open())
		require.NoError(w, next.Fence().Check())
		require.Empty(w, w.trail(messages.OpRenew), "what is over by this process's own knowledge is not asked for")
	})
}

// A grant whose answer comes when the next session has adopted the epoch and given it up, in whatever way.
func TestD7_AGrantThatComesAfterItsEpochWasGivenUpOpensNothing(t *testing.T) {
	for name, end := range map[string]func(*world, *leaseactor.Holder){
		"released":                func(w *world, h *leaseactor.Holder) { require.NoError(w, h.Release(w.ctx)) },
		"released without answer": func(w *world, h *leaseactor.Holder) { w.unanswered(h) },
		"forgotten":               func(w *world, h *leaseactor.Holder) { require.NoError(w, h.MarkForgotten(w.ctx)) },
		"forgotten and released": func(w *world, h *leaseactor.Holder) {
			require.NoError(w, h.MarkForgotten(w.ctx))
			require.NoError(w, h.Release(w.ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				slow := w.patient()
				w.faulty.Next(storetest.OpAcquire, storetest.DelayAnswer(window/2))
				granted := later(func() error { _, err := slow.Acquire(w.ctx); return err })
				time.Sleep(tick)
				next := w.acquired()
				require.Equal(w, uint64(1), next.Lease().Epoch, "adopted")
				end(w, next)
				require.Error(w, <-granted)
				require.False(w, slow.Fence().Open())
				require.NoError(w, slow.Release(w.ctx), "and gives up nothing of anybody else's")
			})
		})
	}
}

// Who has stopped marks nothing: a mark after a forget, or after a release that may still land, would be one of a lineage that is over.
func TestK2_NothingIsMarkedOnceTheHolderHasStopped(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.acquired()
		require.NoError(w, h.MarkForgotten(w.ctx))
		requireFenced(w, h.MarkLineage(w.ctx), messages.ReasonReleased, 1)
		require.NoError(w, h.Release(w.ctx))
		h = w.acquired()
		w.faulty.Next(storetest.OpLineage, storetest.Action{Effect: storetest.EffectNone, AnswerDelay: timeout / 2})
		marked := later(func() error { return h.MarkLineage(w.ctx) })
		time.Sleep(tick)
		released := later(func() error { return h.Release(w.ctx) })
		requireFenced(w, <-marked, messages.ReasonReleased, 2)
		require.NoError(w, <-released)
		require.Empty(w, w.trail(messages.OpLineage))
	})
}

// Whatever the store refuses, not only a renewal, ends the holder (D4).
func TestD4_AMarkThatIsRefusedEndsTheHolder(t *testing.T) {
	for name, ask := range map[string]func(*leaseactor.Holder, context.Context) error{
		"lineage": (*leaseactor.Holder).MarkLineage,
		"floor":   (*leaseactor.Holder).MarkForgotten,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				h := w.acquired()
				require.NoError(w, w.real.Release(w.ctx, key, owner, 1)) // by an operator
				require.ErrorIs(w, ask(h, w.ctx), messages.ErrLost)
				require.False(w, h.Fence().Open())
				_, err := h.Renew(w.ctx)
				require.ErrorIs(w, err, messages.ErrFenced)
				require.NoError(w, h.Release(w.ctx), "there is nothing to release")
				require.Len(w, w.trail(messages.OpRelease), 1)
			})
		})
	}
}
