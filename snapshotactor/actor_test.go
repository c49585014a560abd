package snapshotactor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
	"github.com/leasehold/leasehold/stores/storetest"
)

// tenant is an actor with a supervisor that notes its reports.
type tenant struct {
	*node
	ref     *mailbox.Ref
	reports chan any
	cuts    int
}

// inActor runs a test with an actor in a synctest bubble.
func inActor(t *testing.T, change func(*tenant), test func(t *testing.T, w *world, n *tenant)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.tenant(t, change)
		test(t, w, n)
	})
}

func (w *world) tenant(t *testing.T, change func(*tenant)) *tenant {
	system := mailbox.NewSystem(slog.New(slog.DiscardHandler))
	n := &tenant{reports: make(chan any, 100)}
	n.node = w.node(func(c *Config) {
		c.Backoff, c.MaxBackoff = 100*time.Millisecond, time.Second
		c.Cut = func(context.Context) (Image, error) {
			n.cuts++ // the snapshots lane is one goroutine at a time
			image := imageOf(t, fmt.Sprintf("cut-%d", n.cuts))
			image.Version = uint64(n.cuts)
			return image, nil
		}
	})
	if change != nil {
		change(n)
	}
	n.ref = system.Spawn(New(n.cfg, func(r any) { n.reports <- r }))
	t.Cleanup(func() {
		require.NoError(t, system.Shutdown(context.Background()))
		time.Sleep(2 * time.Second) // virtual: the actor library's guards tick once
	})
	return n
}

// next returns the next report, which must be of type R.
func next[R any](t *testing.T, n *tenant) R {
	t.Helper()
	report, ok := (<-n.reports).(R)
	require.True(t, ok, "want a %T", report)
	return report
}

func (n *tenant) opens(t *testing.T, epoch uint64) {
	t.Helper()
	require.True(t, n.ref.Send(OpenTenant{Grant{Epoch: epoch}}))
	require.NoError(t, next[Opened](t, n).Err)
}

func TestL6_SnapshotsAskedForTogetherRunOneAfterTheOther(t *testing.T) {
	inActor(t, nil, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		w.store.Slow(storetest.OpPut, time.Second)
		start := time.Now()
		for i := range 4 {
			n.ref.Send(Take{Reason: fmt.Sprint(i)})
		}
		for i := range 4 {
			taken := next[Taken](t, n)
			require.NoError(t, taken.Err)
			require.EqualValues(t, i+1, taken.Manifest.Snapshot)
			require.EqualValues(t, i+1, taken.Version)
			require.Equal(t, fmt.Sprint(i), taken.Reason)
			require.Equal(t, time.Duration(2*(i+1))*time.Second, time.Since(start), "never two at a time")
		}
	})
}

func TestS7_ASlowPutHoldsNothingElseUp(t *testing.T) {
	inActor(t, nil, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 2)
		n.ref.Send(Take{})
		require.NoError(t, next[Taken](t, n).Err)
		reached, open := w.store.GateNext(storetest.OpPut)
		n.ref.Send(Take{Reason: "slow"})
		<-reached
		n.ref.Send(RetainFrom{Proven: 1})
		require.NoError(t, next[Retained](t, n).Err)
		n.ref.Send(SweepUpTo{Floor: 1})
		require.Equal(t, Swept{Count: 1}, next[Swept](t, n), "the seal of epoch 1")
		open()
		require.EqualValues(t, 2, next[Taken](t, n).Manifest.Snapshot)
	})
}

func TestS10_TheActorSettlesANumberInDoubtBeforeTheNextCut(t *testing.T) {
	inActor(t, nil, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		w.store.LateNext(storetest.OpPut, -1)
		w.store.Every(storetest.OpAny, storetest.Fail(nil))
		start := time.Now()
		n.ref.Send(Take{Reason: "first"})
		taken := next[Taken](t, n)
		code(t, messages.CodeUnavailable, taken.Err)
		require.Zero(t, taken.Manifest.Snapshot)
		require.Equal(t, 700*time.Millisecond, time.Since(start), "four attempts with 100, 200 and 400 ms between them")
		n.ref.Send(Take{Reason: "second"})
		code(t, messages.CodeUnavailable, next[Taken](t, n).Err)
		require.Equal(t, 1, n.cuts, "nothing is cut while a number is in doubt")
		w.store.Clear()
		n.ref.Send(Take{Reason: "third"})
		settled, taken := next[Taken](t, n), next[Taken](t, n)
		require.True(t, settled.Settled)
		require.EqualValues(t, 1, settled.Manifest.Snapshot)
		require.EqualValues(t, 1, settled.Version)
		require.Equal(t, "first", settled.Reason)
		require.NoError(t, settled.Err)
		require.False(t, taken.Settled)
		require.EqualValues(t, 2, taken.Manifest.Snapshot)
		require.EqualValues(t, 2, taken.Version)
		require.Equal(t, "third", taken.Reason)
		w.store.ReleaseLate()
		require.Equal(t, "cut-2", w.holds(2))
	})
}

func TestS4_TheActorReportsATakenSlotFromThenOn(t *testing.T) {
	inActor(t, nil, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		w.store.ConflictNext(".json", []byte("{}"))
		for range 2 {
			n.ref.Send(Take{})
			require.ErrorIs(t, next[Taken](t, n).Err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonSlotTaken})
		}
		require.Equal(t, messages.ReasonSlotTaken, n.fence.closedFor())
	})
}

func TestS6_AForgetEndsWhatRunsAndDeletesAfterIt(t *testing.T) {
	inActor(t, nil, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		n.ref.Send(Take{})
		require.NoError(t, next[Taken](t, n).Err)
		reached, _ := w.store.GateNext(storetest.OpPut)
		n.ref.Send(Take{Reason: "runs"})
		n.ref.Send(Take{Reason: "waits"})
		<-reached
		n.ref.Send(ForgetUpTo{Floor: 1})
		waits, runs := next[Taken](t, n), next[Taken](t, n)
		require.Equal(t, "waits", waits.Reason)
		code(t, messages.CodeClosed, waits.Err)
		require.Equal(t, "runs", runs.Reason)
		code(t, messages.CodeUnavailable, runs.Err)
		require.Equal(t, Forgotten{Count: 3}, next[Forgotten](t, n), "base, image and manifest")
		require.Equal(t, []string{"floor-00000001.json"}, w.names())
		n.ref.Send(Take{})
		code(t, messages.CodeClosed, next[Taken](t, n).Err)
	})
}

func TestEveryCommandIsAnsweredWhenTheActorStops(t *testing.T) {
	inActor(t, nil, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		takes, _ := w.store.GateNext(storetest.OpPut)
		sweeps, _ := w.store.GateNext(storetest.OpList)
		for _, command := range []any{Take{}, Take{}, SweepUpTo{Floor: 1}, RetainFrom{Proven: 1}, OpenTenant{}} {
			require.True(t, n.ref.Send(command))
		}
		<-takes
		<-sweeps
		n.ref.Stop()
		<-n.ref.Done()
		require.Len(t, n.reports, 5)
		for range 5 {
			switch r := (<-n.reports).(type) {
			case Taken:
				code(t, messages.CodeClosed, r.Err)
			case Swept:
				code(t, messages.CodeClosed, r.Err)
			case Retained:
				code(t, messages.CodeClosed, r.Err)
			case Opened:
				code(t, messages.CodeClosed, r.Err)
			default:
				t.Fatalf("unexpected %T", r)
			}
		}
	})
}

func TestAForgetThatTheActorsEndInterruptsIsAnswered(t *testing.T) {
	inActor(t, nil, func(t *testing.T, w *world, n *tenant) {
		lists, _ := w.store.GateNext(storetest.OpList)
		n.ref.Send(ForgetUpTo{Floor: 1})
		<-lists
		n.ref.Stop()
		<-n.ref.Done()
		code(t, messages.CodeClosed, next[Forgotten](t, n).Err)
	})
}

func TestCommandsThatCannotWorkAreAnswered(t *testing.T) {
	inActor(t, nil, func(t *testing.T, w *world, n *tenant) {
		n.ref.Send(Take{Reason: "early"})
		require.ErrorIs(t, next[Taken](t, n).Err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonNotPinned})
		n.ref.Send(RetainFrom{Proven: 1})
		code(t, messages.CodeInvalidArgument, next[Retained](t, n).Err)
		n.ref.Send(OpenTenant{})
		code(t, messages.CodeInvalidArgument, next[Opened](t, n).Err)
	})
	inActor(t, func(n *tenant) { n.cfg.Cut = nil }, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		n.ref.Send(Take{})
		code(t, messages.CodeInvalidArgument, next[Taken](t, n).Err)
	})
	broken := errors.New("the ledger is closed")
	inActor(t, func(n *tenant) { n.cfg.Cut = func(context.Context) (Image, error) { return Image{}, broken } }, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		n.ref.Send(Take{})
		require.ErrorIs(t, next[Taken](t, n).Err, broken)
	})
}

func TestAPanicInAJobIsAnsweredAndEndsTheActor(t *testing.T) {
	inActor(t, func(n *tenant) { n.cfg.Cut = func(context.Context) (Image, error) { panic("cut") } }, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		n.ref.Send(Take{Reason: "panics"})
		taken := next[Taken](t, n)
		require.Equal(t, "panics", taken.Reason)
		code(t, messages.CodeClosed, taken.Err)
		<-n.ref.Done()
	})
}
