package snapshotactor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// history3 is a tenant with three epochs of two snapshots each, and a number in epoch 2 that was never
// finished. The holder of epoch 3 has a third snapshot.
func (w *world) history3() *node {
	w.t.Helper()
	var n *node
	for epoch := uint64(1); epoch <= 3; epoch++ {
		n = w.opened(epoch)
		n.cfg.Now = func() time.Time { return day(int(epoch)) }
		n.publisher.Now = n.cfg.Now
		for s := 1; s <= 2; s++ {
			_, err := n.publish(w.t, fmt.Sprintf("e%d s%d", epoch, s))
			require.NoError(w.t, err)
		}
	}
	_, err := n.publish(w.t, "e3 s3")
	require.NoError(w.t, err)
	w.put(testKey.ImageName(2, 3), []byte("never finished"))
	return n
}

func day(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }

// seals that history3 leaves: of epoch 1 and 2, the next increment and manifest each.
var history3Seals = []string{"e00000001/inc-000001.ltx", "e00000001/snap-000003.json", "e00000002/inc-000001.ltx", "e00000002/snap-000003.json"}

func TestS9_RetentionKeepsWhatASuccessorCanNeed(t *testing.T) {
	snapshot := func(epoch, n int) []string {
		return []string{fmt.Sprintf("e%08d/snap-%06d.db", epoch, n), fmt.Sprintf("e%08d/snap-%06d.json", epoch, n)}
	}
	own := append([]string{"e00000003/base.json"}, snapshot(3, 3)...)
	for name, c := range map[string]struct {
		proven uint64
		policy Retention
		keeps  [][]string
	}{
		"all that may go":       {3, Retention{}, nil},
		"an earlier proof":      {2, Retention{}, [][]string{snapshot(3, 2)}},
		"the first proof":       {1, Retention{}, [][]string{snapshot(3, 1), snapshot(3, 2)}},
		"keep one":              {3, Retention{Keep: 1}, [][]string{snapshot(3, 2)}},
		"keep three":            {3, Retention{Keep: 3}, [][]string{snapshot(3, 2), snapshot(3, 1), snapshot(2, 2), {"e00000002/base.json"}}},
		"keep none, of a day":   {3, Retention{MinAge: 36 * time.Hour}, [][]string{snapshot(3, 2), snapshot(3, 1), snapshot(2, 2), snapshot(2, 1), {"e00000002/base.json"}}},
		"keep one, of no time":  {3, Retention{Keep: 1, MinAge: time.Nanosecond}, [][]string{snapshot(3, 2), snapshot(3, 1)}},
		"keep more than is":     {3, Retention{Keep: 99}, [][]string{snapshot(3, 2), snapshot(3, 1), snapshot(2, 2), snapshot(2, 1), snapshot(1, 2), snapshot(1, 1), {"e00000001/base.json", "e00000002/base.json"}}},
		"a negative count is 0": {3, Retention{Keep: -1, MinAge: -time.Hour}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.history3()
			before := len(w.names())
			deleted, err := Retain(context.Background(), n.cfg, 3, c.proven, c.policy)
			require.NoError(t, err)
			want := append(append([]string{}, history3Seals...), own...)
			for _, names := range c.keeps {
				want = append(want, names...)
			}
			require.ElementsMatch(t, want, w.names())
			require.Equal(t, before-len(want), deleted)
			again, err := Retain(context.Background(), n.cfg, 3, c.proven, c.policy)
			require.NoError(t, err)
			require.Zero(t, again, "idempotent")
			findings, err := VerifyAll(context.Background(), w.store, testKey, sqliteVerifier{}, t.TempDir(), nil)
			require.NoError(t, err)
			require.Empty(t, findings, "what is kept can be restored")
			require.Equal(t, "e3 s3", w.holds(4))
		})
	}
}

func TestS9_UploadsThatNeverBecamePartOfTheLineageAreNotKept(t *testing.T) {
	w := newWorld(t)
	n := w.history3()
	// A snapshot of epoch 1 beyond what epoch 2 began with, as if nothing had been sealed.
	aside := w.node(nil)
	fake, err := NewPublisher(aside.cfg, Restored{Base: messages.Base{Kind: messages.KindBase, Key: testKey.String(), Epoch: 1}})
	require.NoError(t, err)
	fake.published.Store(7)
	_, err = fake.Publish(context.Background(), imageOf(t, "stray"))
	require.NoError(t, err)
	_, err = Retain(context.Background(), n.cfg, 3, 3, Retention{Keep: 99})
	require.NoError(t, err)
	require.NotContains(t, w.names(), "e00000001/snap-000008.json")
	require.NotContains(t, w.names(), "e00000001/snap-000008.db")
	require.Contains(t, w.names(), "e00000001/snap-000002.json")
}

func TestS9_RetentionNeedsItsProof(t *testing.T) {
	w := newWorld(t)
	n := w.history3()
	before := w.names()
	for _, proven := range []uint64{0, 4} {
		_, err := Retain(context.Background(), n.cfg, 3, proven, Retention{})
		code(t, messages.CodeInvalidArgument, err)
	}
	_, err := Retain(context.Background(), n.cfg, 0, 1, Retention{})
	code(t, messages.CodeInvalidArgument, err)
	require.Equal(t, before, w.names())
}

// A fenced holder may wake up in the middle of its retention, long after a successor went on: what it
// was allowed to delete stays harmless.
func TestS9_RetentionMayStopOrLandLateAtEveryStep(t *testing.T) {
	count := 0
	{
		w := newWorld(t)
		n := w.history3()
		w.store.Before(storetest.OpAny, func(context.Context, storetest.Call) { count++ })
		_, err := Retain(context.Background(), n.cfg, 3, 2, Retention{})
		require.NoError(t, err)
	}
	require.Greater(t, count, 20)
	for at := 2; at <= count; at++ {
		w := newWorld(t)
		n := w.history3()
		own := storetest.NewFaultyDurable(w.store)
		n.cfg.Store, n.cfg.Attempts = own, 1
		crash(own, at, storetest.FailLate(nil, -1))
		_, err := Retain(context.Background(), n.cfg, 3, 2, Retention{})
		require.Error(t, err, "call %d", at)
		findings, err := VerifyAll(context.Background(), w.store, testKey, sqliteVerifier{}, t.TempDir(), nil)
		require.NoError(t, err)
		require.Empty(t, findings, "no manifest without its image, at call %d", at)
		next, nextStore := w.through(nil)
		nextStore.Before(storetest.OpGet, func(context.Context, storetest.Call) { own.ReleaseLate() })
		require.NoError(t, next.open(4))
		require.Equal(t, "e3 s3", wordsIn(t, next.cfg.File))
		// And the whole of it, late.
		own.Clear()
		_, err = Retain(context.Background(), n.cfg, 3, 2, Retention{})
		require.NoError(t, err)
		require.Equal(t, "e3 s3", w.holds(5))
	}
}

func TestS9_RetentionGoesOnAfterAFailedDelete(t *testing.T) {
	w := newWorld(t)
	n := w.history3()
	stubborn := testKey.ManifestName(1, 1)
	w.store.Add(func(c storetest.Call) bool { return c.Op == storetest.OpDelete && c.Key == stubborn }, -1,
		func(storetest.Call) storetest.Action { return storetest.Fail(nil) })
	deleted, err := Retain(context.Background(), n.cfg, 3, 3, Retention{})
	code(t, messages.CodeUnavailable, err)
	require.Positive(t, deleted)
	left := strings.Join(w.names(), " ")
	require.Contains(t, left, "e00000001/snap-000001.db e00000001/snap-000001.json", "the image of a manifest that stayed stays")
	require.NotContains(t, left, "e00000002/snap-000001.json")
	w.store.Clear()
	_, err = Retain(context.Background(), n.cfg, 3, 3, Retention{})
	require.NoError(t, err)
	require.NotContains(t, strings.Join(w.names(), " "), "e00000001/snap-000001")
	// A store that is away altogether is not asked for every object.
	w = newWorld(t)
	n = w.history3()
	asked := 0
	w.store.Every(storetest.OpDelete, storetest.Fail(nil))
	w.store.Before(storetest.OpDelete, func(context.Context, storetest.Call) { asked++ })
	_, err = Retain(context.Background(), n.cfg, 3, 3, Retention{})
	code(t, messages.CodeUnavailable, err)
	require.Equal(t, tooManyInARow*n.cfg.Attempts, asked)
}
