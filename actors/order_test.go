package actors_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// An order as a caller gives it, and whether it was carried out, as the stores tell.
type orderKind struct {
	name string
	give func(context.Context, *actors.Tenant) error
	done func(*fleet, *actors.Node, messages.Key) bool
	// alone says that nothing but this order does such a thing: a shutdown hands off and saves too.
	alone bool
}

func orderKinds() []orderKind {
	released := func(f *fleet, n *actors.Node, key messages.Key) bool {
		entries, err := f.leases.Inner().History(context.Background(), key)
		require.NoError(f.t, err)
		return slices.ContainsFunc(entries, func(e messages.LeaseEntry) bool { return e.Op == messages.OpRelease && e.Owner == n.Owner() })
	}
	return []orderKind{
		{name: "handoff", give: func(ctx context.Context, t *actors.Tenant) error { return t.Handoff(ctx) }, done: released},
		{name: "abandon", give: func(ctx context.Context, t *actors.Tenant) error { return t.Abandon(ctx) }, done: released},
		{name: "forget", alone: true, give: func(ctx context.Context, t *actors.Tenant) error { return t.Forget(ctx) },
			done: func(f *fleet, _ *actors.Node, key messages.Key) bool {
				lease, _, err := f.leases.Inner().Read(context.Background(), key)
				require.NoError(f.t, err)
				return lease.Floor > 0
			}},
		{name: "snapshot", give: func(ctx context.Context, t *actors.Tenant) error { _, err := t.Snapshot(ctx); return err },
			done: func(f *fleet, _ *actors.Node, key messages.Key) bool {
				return slices.Contains(f.objects(key), key.ManifestName(1, 1))
			}},
	}
}

// struck is one interruption of an order, at one call of a store that is made for it.
type struck struct {
	f      *fleet
	n      *actors.Node
	key    messages.Key
	cancel context.CancelCauseFunc
	others sync.WaitGroup
}

// interruptions happen while the call is held up. They return how long it is held up after that.
var interruptions = map[string]func(*struck) time.Duration{
	"nothing": func(*struck) time.Duration { return 0 },
	"the caller's deadline": func(s *struck) time.Duration {
		s.cancel(context.DeadlineExceeded)
		return time.Second
	},
	"the caller gives up": func(s *struck) time.Duration {
		s.cancel(context.Canceled)
		return time.Second
	},
	"a shutdown": func(s *struck) time.Duration {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		s.others.Go(func() { defer cancel(); _ = s.n.Shutdown(ctx) })
		return 2 * time.Second
	},
	"a long shutdown": func(s *struck) time.Duration {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		s.others.Go(func() { defer cancel(); _ = s.n.Shutdown(ctx) })
		return 200 * time.Millisecond
	},
	"an abort": func(s *struck) time.Duration {
		s.others.Go(func() { _ = s.n.Abort() })
		return time.Second
	},
	"the lease is lost": func(s *struck) time.Duration {
		remove := s.f.cutOff(s.n.Owner())
		time.Sleep(ttl + 10*time.Millisecond)
		_, err := s.f.leases.Inner().Acquire(context.Background(), s.key, "other", ttl)
		require.NoError(s.f.t, err)
		remove()
		return 2 * renewEvery
	},
	"a child panics": func(*struck) time.Duration { panic("a bug in a binding") },
	"the store hangs": func(s *struck) time.Duration {
		return 30 * time.Second
	},
}

// TestQ1_AnOrderIsAnsweredWithItsOutcomeOrUnknownOutcome interrupts every order in every way, at every call of a store that
// is made for it, before the call takes effect and after. Whatever the answer says must be true when everything has come to
// rest: only unknown_outcome may be wrong about nothing.
func TestQ1_AnOrderIsAnsweredWithItsOutcomeOrUnknownOutcome(t *testing.T) {
	var answers sync.Map // what was answered, by order
	for _, order := range orderKinds() {
		for name, interrupt := range interruptions {
			for step, more := 1, true; more; step++ {
				for _, when := range []string{"before", "after"} {
					t.Run(fmt.Sprintf("%s/%s/%s call %d", order.name, name, when, step), func(t *testing.T) {
						inBubble(t, func(t *testing.T, f *fleet) {
							var code messages.Code
							code, more = interrupted(t, f, order, name, interrupt, step, when)
							count, _ := answers.LoadOrStore(order.name+" "+string(code), new(atomic.Int64))
							count.(*atomic.Int64).Add(1)
						})
					})
				}
			}
		}
	}
	answers.Range(func(answer, count any) bool {
		t.Logf("%s: %d", answer, count.(*atomic.Int64).Load())
		return true
	})
}

func interrupted(t *testing.T, f *fleet, order orderKind, name string, interrupt func(*struck) time.Duration, step int, when string) (code messages.Code, reached bool) {
	n := f.start(rarely)
	tenant := open(t, n, "u")
	appendKind(t, tenant, "1")
	key := tenant.Key()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if name == "the caller's deadline" {
		var stop context.CancelFunc
		ctx, stop = deadlineOf(ctx)
		defer stop()
	}
	s := &struck{f: f, n: n, key: key, cancel: cancel}
	var calls, struckAt atomic.Int64
	strike := func(op storetest.Op) {
		switch op {
		case storetest.OpPut, storetest.OpForget, storetest.OpDeletePrefix, storetest.OpRelease:
		default:
			return // reads and renewals are no steps of an order
		}
		if calls.Add(1) == int64(step) {
			struckAt.Store(1)
			time.Sleep(interrupt(s))
		}
	}
	if when == "before" {
		f.leases.Before(storetest.OpAny, func(_ ctxT, c storetest.Call) { strike(c.Op) })
		f.durable.Before(storetest.OpAny, func(_ ctxT, c storetest.Call) { strike(c.Op) })
	} else {
		f.leases.After(storetest.OpAny, func(_ ctxT, c storetest.Call, _ storetest.Result) { strike(c.Op) })
		f.durable.After(storetest.OpAny, func(_ ctxT, c storetest.Call, _ storetest.Result) { strike(c.Op) })
	}
	err := order.give(ctx, tenant)
	code = messages.CodeOf(err)
	reached = struckAt.Load() == 1
	calls.Store(math.MinInt32) // what comes now is no step of the order
	time.Sleep(5 * ttl)        // whatever lands late has landed
	s.others.Wait()
	done := order.done(f, n, key)
	switch code {
	case messages.CodeUnknownOutcome:
		require.NotEmpty(t, messages.AsError(err).Cause, "what interrupted it")
	case "":
		if order.name == "forget" || order.name == "snapshot" {
			require.True(t, done)
		}
	default:
		if order.alone || name != "a shutdown" && name != "a long shutdown" {
			require.False(t, done, "it says that nothing was done: %v", err)
		}
	}
	// What was acknowledged is lost only by an order, a crash, or to somebody else.
	if done && (order.name == "forget" || order.name == "abandon") || order.name == "abandon" ||
		slices.Contains([]string{"a shutdown", "an abort", "the lease is lost", "a child panics"}, name) {
		return code, reached
	}
	_ = n.Shutdown(within(t, time.Minute))
	time.Sleep(2 * ttl)
	require.Equal(t, []string{"1"}, kinds(t, open(t, f.start(), "u")), "after %v", err)
	return code, reached
}

// deadlineOf returns a context with a deadline that comes when its parent is cancelled.
func deadlineOf(parent context.Context) (context.Context, context.CancelFunc) {
	return &passedDeadline{parent}, func() {}
}

type passedDeadline struct{ context.Context }

func (p *passedDeadline) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }

func (p *passedDeadline) Err() error {
	if p.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}
