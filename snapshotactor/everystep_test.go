package snapshotactor

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/storetest"
)

// These tests try every step: for each call of the store that a life of a tenant makes, something goes
// wrong with exactly that call.

// through returns a node whose calls go through a wrapper of its own, so that its faults are its own.
func (w *world) through(change func(*Config)) (*node, *storetest.FaultyDurable) {
	own := storetest.NewFaultyDurable(w.store)
	w.t.Cleanup(func() { own.DropLate() })
	n := w.node(func(c *Config) {
		c.Store, c.Attempts = own, 1
		if change != nil {
			change(c)
		}
	})
	return n, own
}

// wordsSoFar are the states of a life: each snapshot adds a word.
var wordsSoFar = []string{"one", "one two", "one two three"}

// live opens at an epoch and publishes until something fails. It returns what was confirmed last.
func (n *node) live(t testing.TB, epoch uint64) (confirmed string, err error) {
	if err := n.open(epoch); err != nil {
		return "", err
	}
	for _, words := range wordsSoFar {
		if _, err := n.publish(t, words); err != nil {
			return confirmed, err
		}
		confirmed = words
	}
	return confirmed, nil
}

// calls counts the calls of a step that nothing goes wrong with.
func calls(t *testing.T, step func(w *world, n *node)) int {
	w := newWorld(t)
	n, own := w.through(nil)
	count := 0
	own.Observe(func(e storetest.Event) {
		if e.Phase == storetest.Called {
			count++
		}
	})
	step(w, n)
	require.Greater(t, count, 5, "a step without calls proves nothing")
	return count
}

var faultKinds = map[string]storetest.Action{
	"never arrives": storetest.Fail(nil),
	"answer lost":   storetest.LoseAnswer(nil),
	"arrives late":  storetest.FailLate(nil, -1),
}

func TestS10_EveryAnswerMayBeLost(t *testing.T) {
	t.Parallel() // it waits for the file system most of the time
	life := func(w *world, n *node) {
		a := w.opened(1)
		_, err := a.publish(t, "zero")
		require.NoError(t, err)
		confirmed, err := n.live(t, 2)
		require.NoError(t, err)
		require.Equal(t, wordsSoFar[2], confirmed)
	}
	total := calls(t, life)
	for kind, action := range faultKinds {
		for at := 1; at <= total; at++ {
			// What arrives late arrives one call later, two, or when all is over.
			for _, later := range []int{1, 2, 99} {
				if kind != "arrives late" && later > 1 {
					continue
				}
				t.Run(fmt.Sprintf("%s/call %d/%d later", kind, at, later), func(t *testing.T) {
					w := newWorld(t)
					n, own := w.through(func(c *Config) { c.Attempts = 3 })
					own.Program(func(c storetest.Call) storetest.Action {
						if int(c.Seq) == at+later {
							own.ReleaseLate()
						}
						if int(c.Seq) == at {
							return action
						}
						return storetest.Pass()
					})
					life(w, n)
					own.ReleaseLate()
					require.EqualValues(t, 3, n.publisher.Published())
					require.Equal(t, "", n.fence.closedFor(), "a holder never fences itself because of its own bytes")
					require.Equal(t, wordsSoFar[2], w.holds(3))
				})
			}
		}
	}
}

func TestS10_ANumberLeftInDoubtIsSettledWithTheSameBytes(t *testing.T) {
	for kind, action := range faultKinds {
		for at := 3; at <= 8; at++ { // the puts of three snapshots
			t.Run(fmt.Sprintf("%s/call %d", kind, at), func(t *testing.T) {
				w := newWorld(t)
				n, own := w.through(nil)
				own.Program(func(c storetest.Call) storetest.Action {
					if int(c.Seq) == at {
						return action
					}
					return storetest.Pass()
				})
				confirmed, err := n.live(t, 1)
				code(t, messages.CodeUnavailable, err)
				require.True(t, n.publisher.Pending())
				before := n.publisher.Published()
				// The next snapshot has another content; the number in doubt keeps its own.
				m, err := n.publish(t, "one two three four")
				require.NoError(t, err)
				require.Equal(t, before+2, m.Snapshot)
				own.ReleaseLate()
				m, err = n.publisher.Settle(context.Background())
				require.NoError(t, err)
				require.Zero(t, m.Snapshot)
				require.Equal(t, before+2, n.publisher.Published())
				require.Equal(t, "one two three four", w.holds(2))
				_, err = Fetch(context.Background(), w.store, sqliteVerifier{}, testKey, &messages.Position{Epoch: 1, Snapshot: before + 1}, 0, w.dir+"/doubtful.db")
				require.NoError(t, err)
				require.Equal(t, strings.TrimSpace(confirmed+" "+[]string{"one", "two", "three"}[before]), wordsIn(t, w.dir+"/doubtful.db"))
			})
		}
	}
}

// crash makes a wrapper's process die with its at-th call: no later call is ever made.
func crash(own *storetest.FaultyDurable, at int, last storetest.Action) {
	own.Program(func(c storetest.Call) storetest.Action {
		switch {
		case int(c.Seq) < at:
			return storetest.Pass()
		case int(c.Seq) == at:
			return last
		}
		return storetest.Fail(nil)
	})
}

func TestS2_ACrashAtEveryStepLosesNothingConfirmed(t *testing.T) {
	t.Parallel() // it waits for the file system most of the time
	first := calls(t, func(_ *world, n *node) { _, _ = n.live(t, 1) })
	second := calls(t, func(w *world, n *node) {
		a := w.opened(1)
		_, err := a.publish(t, "one")
		require.NoError(t, err)
		require.NoError(t, n.open(2))
	})
	for kind, last := range faultKinds {
		for at := 1; at <= first; at++ {
			// The dead process's last request lands before the j-th call of the one after it.
			for landsAt := 1; landsAt <= second+1; landsAt++ {
				if kind != "arrives late" && landsAt > 1 {
					continue
				}
				t.Run(fmt.Sprintf("publishing/%s/call %d/lands at %d", kind, at, landsAt), func(t *testing.T) {
					w := newWorld(t)
					dead, own := w.through(nil)
					crash(own, at, last)
					confirmed, err := dead.live(t, 1)
					require.Error(t, err)
					next, nextStore := w.through(nil)
					nextStore.Before(storetest.OpAny, func(_ context.Context, c storetest.Call) {
						if int(c.Seq) == landsAt {
							own.ReleaseLate()
						}
					})
					require.NoError(t, next.open(2))
					own.ReleaseLate()
					begins := wordsIn(t, next.cfg.File)
					require.True(t, strings.HasPrefix(begins, confirmed), "confirmed %q, restored %q", confirmed, begins)
					require.Contains(t, append([]string{""}, wordsSoFar...), begins)
					require.Equal(t, begins, w.holds(3), "the lineage is decided")
				})
			}
		}
		for at := 1; at <= second; at++ {
			for landsAt := 1; landsAt <= second+1; landsAt++ {
				if kind != "arrives late" && landsAt > 1 {
					continue
				}
				t.Run(fmt.Sprintf("opening/%s/call %d/lands at %d", kind, at, landsAt), func(t *testing.T) {
					w := newWorld(t)
					a := w.opened(1)
					_, err := a.publish(t, "one")
					require.NoError(t, err)
					dead, own := w.through(nil)
					crash(own, at, last)
					require.Error(t, dead.open(2))
					next, nextStore := w.through(nil)
					nextStore.Before(storetest.OpAny, func(_ context.Context, c storetest.Call) {
						if int(c.Seq) == landsAt {
							own.ReleaseLate()
						}
					})
					require.NoError(t, next.open(3))
					require.Equal(t, "one", wordsIn(t, next.cfg.File))
					_, err = next.publish(t, "one two")
					require.NoError(t, err)
					own.ReleaseLate()
					require.Equal(t, "one two", w.holds(4))
				})
			}
		}
	}
}

// lostAfterPause lets a holder pause before its i-th call for as long as its successor needs to come to
// its j-th call, with a clock that shows it nothing, and then go on. It returns whether anything that it
// confirmed is missing from what the successor restored.
func lostAfterPause(t *testing.T, i, j int, paused, successor planted.Set) (lost bool) {
	w := newWorld(t)
	zombie, own := w.through(func(c *Config) { c.Planted = paused })
	gate, reached := make(chan struct{}), make(chan struct{})
	var unmarked atomic.Bool // it was paused before its pin: it has no lease any more to mark its lineage with, and never serves
	own.Program(func(c storetest.Call) storetest.Action {
		switch {
		case int(c.Seq) == i:
			close(reached)
			return storetest.Action{Gate: gate}
		case unmarked.Load() && c.Op == storetest.OpPut && c.Key != testKey.BaseName(1):
			return storetest.Fail(nil)
		}
		return storetest.Pass()
	})
	done := make(chan string, 1)
	go func() {
		confirmed, _ := zombie.live(t, 1)
		done <- confirmed
	}()
	<-reached
	unmarked.Store(!w.served(Grant{Epoch: 2}))
	next, nextStore := w.through(func(c *Config) { c.Planted = successor })
	confirmed, resumed := "", false
	resume := func() {
		if !resumed {
			resumed = true
			close(gate)
			confirmed = <-done
		}
	}
	nextStore.Before(storetest.OpAny, func(_ context.Context, c storetest.Call) {
		if int(c.Seq) == j {
			resume()
		}
	})
	require.NoError(t, next.open(2))
	resume()
	begins := wordsIn(t, next.cfg.File)
	require.Equal(t, begins, w.holds(3))
	return !strings.HasPrefix(begins, confirmed)
}

// firstLoss tries every pair of steps until one loses something.
func firstLoss(t *testing.T, paused, successor planted.Set) (lost bool) {
	for i := 8; i >= 1; i-- {
		for j := 9; j >= 1; j-- {
			if lostAfterPause(t, i, j, paused, successor) {
				return true
			}
		}
	}
	return false
}

func TestS12_APausedHolderLosesNothingItConfirms(t *testing.T) {
	t.Parallel() // it waits for the file system most of the time
	require.False(t, firstLoss(t, 0, 0))
}

func TestS12_PlantedFaultsOfPausedHoldersAreFound(t *testing.T) {
	for _, c := range []struct{ paused, successor planted.Set }{
		{0, planted.Of(planted.NoSeal)},
		{0, planted.Of(planted.SealBaseSlotsOnly)},
		{planted.Of(planted.IgnoreSlotTaken), 0},
	} {
		t.Run(c.paused.String()+" "+c.successor.String(), func(t *testing.T) {
			require.True(t, firstLoss(t, c.paused, c.successor))
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	store, err := dir.Open(context.Background(), dir.Config{Root: b.TempDir(), NoSync: true})
	require.NoError(b, err)
	defer func() { _ = store.Close() }()
	w := &world{t: b, store: storetest.NewFaultyDurable(store), dir: b.TempDir()}
	a := w.opened(1)
	_, err = a.publish(b, "one")
	require.NoError(b, err)
	epoch := uint64(1)
	for b.Loop() {
		epoch++
		w.opened(epoch)
	}
}
