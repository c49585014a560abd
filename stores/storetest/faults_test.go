package storetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// Each action, for one put in a bubble: what the caller gets, when, and when the object is there.
func TestActions(t *testing.T) {
	mine := errors.New("mine")
	const deadline = 10 * time.Second
	never := time.Duration(-1)
	for _, tt := range []struct {
		name     string
		action   storetest.Action
		created  bool
		is       error
		answered time.Duration
		there    time.Duration // after the call; never: not at all
	}{
		{"pass", storetest.Pass(), true, nil, 0, 0},
		{"fail", storetest.Fail(nil), false, messages.ErrUnavailable, 0, never},
		{"fail with an error", storetest.Fail(mine), false, mine, 0, never},
		{"lose the answer", storetest.LoseAnswer(nil), false, messages.ErrUnavailable, 0, 0},
		{"lose the answer with an error", storetest.LoseAnswer(mine), false, mine, 0, 0},
		{"fail late at once", storetest.FailLate(nil, 0), false, messages.ErrUnavailable, 0, 0},
		{"fail late", storetest.FailLate(nil, time.Minute), false, messages.ErrUnavailable, 0, time.Minute},
		{"fail late within the deadline", storetest.FailLate(mine, time.Second), false, mine, 0, time.Second},
		{"delay", storetest.Delay(time.Second), true, nil, time.Second, time.Second},
		{"delay past the deadline", storetest.Delay(time.Minute), false, context.DeadlineExceeded, deadline, never},
		{"delay the answer", storetest.DelayAnswer(time.Second), true, nil, time.Second, 0},
		{"delay the answer past the deadline", storetest.DelayAnswer(time.Minute), false, context.DeadlineExceeded, deadline, 0},
		{"hang", storetest.Hang(), false, context.DeadlineExceeded, deadline, never},
		{"hang, late", storetest.HangLate(time.Minute), false, context.DeadlineExceeded, deadline, time.Minute},
		{"hang, late but before the answer", storetest.HangLate(time.Second), false, context.DeadlineExceeded, deadline, time.Second},
		{"hang after the effect", storetest.Action{Hang: true}, false, context.DeadlineExceeded, deadline, 0},
		{"delay, then fail late", storetest.Action{Delay: time.Second, Effect: storetest.EffectLate, After: time.Second},
			false, messages.ErrUnavailable, time.Second, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				store := objects(t, root)
				store.Next(storetest.OpPut, tt.action)
				began := time.Now()
				took := never
				var mu sync.Mutex
				store.Observe(func(e storetest.Event) {
					mu.Lock()
					defer mu.Unlock()
					if e.Phase == storetest.Took && e.Call.Op == storetest.OpPut {
						took = time.Since(began)
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				data := []byte("body")
				created, err := store.PutIfAbsent(ctx, "a/b", data)
				copy(data, "XXXX") // the caller may reuse its bytes now
				cancel()           // and its context is over
				require.Equal(t, tt.created, created)
				if tt.is == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, tt.is)
				}
				if tt.is == context.DeadlineExceeded {
					require.ErrorIs(t, err, messages.ErrUnavailable)
				}
				require.Equal(t, tt.answered, time.Since(began))

				time.Sleep(time.Hour)
				mu.Lock()
				require.Equal(t, tt.there, took)
				mu.Unlock()
				got, ok, err := store.Get(t.Context(), "a/b", 1<<30)
				require.NoError(t, err)
				require.Equal(t, tt.there != never, ok)
				if ok {
					require.Equal(t, "body", string(got))
				}
				require.Zero(t, store.Late())
			})
		})
	}
}

func TestLateEffects_WaitForTheirRelease(t *testing.T) {
	store := objects(t, t.TempDir())
	exists := func(key string) bool {
		_, ok, err := store.Get(t.Context(), key, 1<<30)
		require.NoError(t, err)
		return ok
	}
	for _, key := range []string{"a", "b"} {
		store.LateNext(storetest.OpPut, -1)
		_, err := store.PutIfAbsent(t.Context(), key, []byte("x"))
		require.ErrorIs(t, err, messages.ErrUnavailable)
	}
	require.Equal(t, 2, store.Late())
	require.False(t, exists("a"))
	require.Equal(t, 2, store.ReleaseLate())
	require.True(t, exists("a"))
	require.True(t, exists("b"))
	require.Zero(t, store.ReleaseLate())

	store.LateNext(storetest.OpDeletePrefix, -1)
	store.LateNext(storetest.OpDelete, -1)
	_, err := store.DeletePrefix(t.Context(), "x/")
	require.ErrorIs(t, err, messages.ErrUnavailable)
	_, err = store.Delete(t.Context(), "a")
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.Equal(t, 2, store.DropLate())
	require.Zero(t, store.ReleaseLate())
	require.True(t, exists("a"), "a dropped delete never takes place")
}

// DropLate waits for an effect that has begun, so that the store can be closed after it.
func TestLateEffects_DropWaitsForTheOneThatRuns(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		inner := objects(t, root)
		inner.Slow(storetest.OpPut, time.Minute)
		outer := storetest.NewFaultyDurable(inner)
		outer.LateNext(storetest.OpPut, time.Second)
		_, err := outer.PutIfAbsent(t.Context(), "a", nil)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		began := time.Now()
		time.Sleep(2 * time.Second)
		require.Zero(t, outer.DropLate())
		require.Equal(t, time.Minute+time.Second, time.Since(began))
		_, ok, err := outer.Get(t.Context(), "a", 1<<30)
		require.NoError(t, err)
		require.True(t, ok)
	})
}

func TestOutages(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := leases(t, root)
		key := storetest.NewKey()
		store.FailNext(storetest.OpAny, errors.New("a rule waits while the store is down"))
		store.Down(nil)
		_, err := store.Acquire(t.Context(), key, "a", ttl)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		require.ErrorIs(t, store.Release(t.Context(), key, "a", 1), messages.ErrUnavailable)
		_, err = store.RenewMany(t.Context(), nil)
		require.ErrorIs(t, err, messages.ErrUnavailable)

		store.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_, _, err = store.Read(ctx, key)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(began))

		store.Up()
		_, _, err = store.Read(t.Context(), key)
		require.EqualError(t, err, "a rule waits while the store is down")
		_, ok, err := store.Read(t.Context(), key)
		require.NoError(t, err)
		require.False(t, ok, "nothing took effect")
	})
}

func TestRules_InTheirOrderAndForTheirOperation(t *testing.T) {
	store := leases(t, t.TempDir())
	key := storetest.NewKey()
	first, second, program := errors.New("first"), errors.New("second"), errors.New("program")
	store.FailNext(storetest.OpRenew, second)
	store.FailNext(storetest.OpAcquire, first)
	store.FailNext(storetest.OpAcquire, second)
	remove := store.Every(storetest.OpHistory, storetest.Fail(first))
	store.Program(func(c storetest.Call) storetest.Action {
		if c.Op == storetest.OpAcquire && c.Owner == "b" && c.TTL == ttl && c.Key == key.String() {
			return storetest.Fail(program)
		}
		return storetest.Pass()
	})
	for _, want := range []error{first, second, program, program} {
		_, err := store.Acquire(t.Context(), key, "b", ttl)
		require.ErrorIs(t, err, want)
	}
	lease, err := store.Acquire(t.Context(), key, "a", ttl)
	require.NoError(t, err)
	for _, want := range []error{second, nil} {
		_, err = store.Renew(t.Context(), key, "a", lease.Epoch, ttl)
		require.ErrorIs(t, err, want)
	}
	for range 3 {
		_, err = store.History(t.Context(), key)
		require.ErrorIs(t, err, first)
	}
	remove()
	_, err = store.History(t.Context(), key)
	require.NoError(t, err)
	store.Every(storetest.OpAny, storetest.Fail(nil))
	store.Clear()
	require.NoError(t, store.Release(t.Context(), key, "a", lease.Epoch))
}

func TestHooks_RunBesideFaults(t *testing.T) {
	store := objects(t, t.TempDir())
	var seen []string
	store.Before(storetest.OpList, func(context.Context, storetest.Call) { seen = append(seen, "before") })
	store.After(storetest.OpList, func(_ context.Context, _ storetest.Call, r storetest.Result) {
		seen = append(seen, "after", string(messages.CodeOf(r.Err)))
	})
	// The hook before the next list: somebody's put lands between our decision to list and the listing.
	store.BeforeNext(storetest.OpList, func(ctx context.Context, _ storetest.Call) {
		_, err := store.PutIfAbsent(ctx, "late", nil)
		require.NoError(t, err)
	})
	keys, err := store.List(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []string{"late"}, keys)
	store.FailNext(storetest.OpList, nil)
	_, err = store.List(t.Context(), "")
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.Equal(t, []string{"before", "after", "", "before", "after", "unavailable"}, seen)

	once := 0
	store.AfterNext(storetest.OpAny, func(context.Context, storetest.Call, storetest.Result) { once++ })
	for range 3 {
		_, _, err = store.Get(t.Context(), "late", 1<<30)
		require.NoError(t, err)
	}
	require.Equal(t, 1, once)
}

func TestGate_HoldsACallUntilItIsOpened(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := objects(t, root)
		reached, open := store.GateNext(storetest.OpPut)
		done := make(chan error)
		go func() {
			_, err := store.PutIfAbsent(t.Context(), "a", nil)
			done <- err
		}()
		<-reached
		synctest.Wait()
		_, ok, err := store.Get(t.Context(), "a", 1<<30)
		require.NoError(t, err)
		require.False(t, ok)
		open()
		open() // twice is fine
		require.NoError(t, <-done)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		store.GateNext(storetest.OpPut)
		_, err = store.PutIfAbsent(ctx, "b", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestConflict_SomebodyElsesBytesAreThere(t *testing.T) {
	store := objects(t, t.TempDir())
	store.ConflictNext("base.json", []byte("other"))
	created, err := store.PutIfAbsent(t.Context(), "e1/snap-1.db", []byte("mine"))
	require.NoError(t, err)
	require.True(t, created)
	created, err = store.PutIfAbsent(t.Context(), "e1/base.json", []byte("mine"))
	require.NoError(t, err)
	require.False(t, created)
	got, _, err := store.Get(t.Context(), "e1/base.json", 1<<30)
	require.NoError(t, err)
	require.Equal(t, "other", string(got))
}
