package snapshotactor

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// takeAway lets the next put of name fail without an answer, while somebody else's
// bytes land under its name.
func (w *world) takeAway(name string) {
	w.store.Add(func(c storetest.Call) bool { return c.Op == storetest.OpPut && c.Key == name }, 1, func(storetest.Call) storetest.Action {
		w.put(name, []byte("somebody else's"))
		return storetest.Fail(nil)
	})
}

func TestS10_ALostAnswerIsReadBackAndNotGuessed(t *testing.T) {
	for _, name := range []string{testKey.ImageName(2, 1), testKey.ManifestName(2, 1)} {
		w := newWorld(t)
		n := w.opened(2)
		w.takeAway(name)
		_, err := n.publish(t, "one")
		require.ErrorIs(t, err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonSlotTaken}, name)
	}
	w := newWorld(t)
	w.takeAway(testKey.BaseName(2))
	code(t, messages.CodeLineageAhead, w.node(nil).open(2))
}

func TestS10_AnImageThatArrivedIsNotSentTwice(t *testing.T) {
	w := newWorld(t)
	n := w.opened(1)
	puts := 0
	w.store.Before(storetest.OpPut, func(context.Context, storetest.Call) { puts++ })
	w.store.LoseNext(storetest.OpPut, nil)
	_, err := n.publish(t, "one")
	require.NoError(t, err)
	require.Equal(t, 2, puts, "one image, one manifest")
}

func TestS12_ASealThatIsThereAlreadyServesAsWell(t *testing.T) {
	w := newWorld(t)
	a := w.opened(1)
	_, err := a.publish(t, "one")
	require.NoError(t, err)
	lists := 0
	w.store.Before(storetest.OpList, func(context.Context, storetest.Call) { lists++ })
	w.store.AfterNext(storetest.OpList, func(context.Context, storetest.Call, storetest.Result) {
		o := messages.Object{Key: testKey, Epoch: 1, Kind: messages.ObjectManifest, Number: 2}
		seal, err := encodeSeal(o, 2) // by one that died before its pin
		require.NoError(t, err)
		w.put(o.Name(), seal)
	})
	require.Equal(t, "one", w.holds(3))
	require.Equal(t, 1, lists)
}

// An image may be large: where something is in its slot, that is read until it is known, and the image is not sent again.
func TestS10_WhatMeetsSomethingInItsSlotIsNotSentAgain(t *testing.T) {
	w := newWorld(t)
	a := w.opened(1)
	puts := 0
	w.store.Before(storetest.OpPut, func(context.Context, storetest.Call) { puts++ })
	w.store.ConflictNext(testKey.ImageName(1, 1), []byte("somebody else's"))
	w.store.FailNext(storetest.OpGet, nil)
	_, err := a.publish(t, "one")
	code(t, messages.CodeFenced, err)
	require.Equal(t, 1, puts)
}

// A seal counts in its own slot only. One of another tenant, of another epoch, or of nobody who could have sealed there, is damage:
// an open that took it for a seal would leave the slot's owner free to go on, or take its writes for sealed off.
func TestS12_ASealFromElsewhereIsNone(t *testing.T) {
	slots := map[string]messages.Object{
		"base":      {Key: testKey, Epoch: 2, Kind: messages.ObjectBase},
		"manifest":  {Key: testKey, Epoch: 1, Kind: messages.ObjectManifest, Number: 2},
		"increment": {Key: testKey, Epoch: 1, Kind: messages.ObjectIncrement, Number: 1},
	}
	lies := map[string]func(*messages.Seal){
		"another tenant":       func(s *messages.Seal) { s.Key = "acme/t-00000000000000000000000000000000" },
		"another organization": func(s *messages.Seal) { s.Key = "acne/" + string(testKey.Tenant) },
		"an earlier epoch":     func(s *messages.Seal) { s.Epoch-- },
		"a later epoch":        func(s *messages.Seal) { s.Epoch++ },
		"by the epoch itself":  func(s *messages.Seal) { s.By = s.Epoch },
		"of no version":        func(s *messages.Seal) { s.Version = 0 },
	}
	for slotName, slot := range slots {
		for name, lie := range lies {
			t.Run(slotName+"/"+name, func(t *testing.T) {
				seal := messages.Seal{Kind: messages.KindSeal, Version: 1, Key: testKey.String(), Epoch: slot.Epoch, By: 3}
				lie(&seal)
				data, err := encode(seal)
				require.NoError(t, err)
				for when, land := range map[string]func(*world){
					"before the listing": func(w *world) { w.put(slot.Name(), data) },
					"before the seal":    func(w *world) { w.store.ConflictNext(slot.Name(), data) },
				} {
					w := newWorld(t)
					_, err := w.opened(1).publish(t, "one")
					require.NoError(t, err)
					land(w)
					err = w.node(nil).open(3)
					code(t, messages.CodeCorrupt, err)
					object(t, slot.Name(), err)
					require.NotContains(t, w.names(), "e00000003/base.json", when)
				}
			})
		}
	}
}

// blindStore breaks the promise that a listing shows every completed put.
type blindStore struct {
	Store
	hidden string
}

func (b blindStore) List(ctx context.Context, prefix string) ([]string, error) {
	names, err := b.Store.List(ctx, prefix)
	return slices.DeleteFunc(names, func(name string) bool { return name == b.hidden }), err
}

func TestAnOpenThatNeverSeesWhatItMeetsGivesUp(t *testing.T) {
	w := newWorld(t)
	a := w.opened(1)
	for _, words := range []string{"one", "one two"} {
		_, err := a.publish(t, words)
		require.NoError(t, err)
	}
	n := w.node(func(c *Config) { c.Store = blindStore{w.store, testKey.ManifestName(1, 2)} })
	code(t, messages.CodeUnavailable, n.open(2))
	require.NotContains(t, w.names(), "e00000002/base.json", "it does not begin without the second snapshot")
}

func TestAnOpenEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.store.Freeze()
		n := w.node(nil)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := Open(ctx, n.cfg, Grant{Epoch: 1})
		code(t, messages.CodeUnavailable, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

func TestS9_ALateRetentionNeverTouchesALaterEpoch(t *testing.T) {
	w := newWorld(t)
	n := w.history3()
	_, err := w.opened(4).publish(t, "new")
	require.NoError(t, err)
	_, err = Retain(context.Background(), n.cfg, 3, 3, Retention{})
	require.NoError(t, err)
	for _, name := range []string{testKey.BaseName(4), testKey.ImageName(4, 1), testKey.ManifestName(4, 1)} {
		require.NotEmpty(t, w.get(name))
	}
}

func TestS6_AForgetWaitsForAJobThatCannotBeInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cutting, goOn := make(chan struct{}, 1), make(chan struct{})
		w := newWorld(t)
		n := w.tenant(t, func(n *tenant) {
			n.cfg.Cut = func(context.Context) (Image, error) {
				cutting <- struct{}{}
				<-goOn
				return imageOf(t, "one"), nil
			}
		})
		n.opens(t, 1)
		n.ref.Send(Take{})
		<-cutting
		n.ref.Send(ForgetUpTo{Floor: 1})
		synctest.Wait()
		require.Empty(t, n.reports)
		require.NotEmpty(t, w.names(), "nothing is deleted while an upload of our own may follow")
		close(goOn)
		code(t, messages.CodeUnavailable, next[Taken](t, n).Err)
		require.Equal(t, Forgotten{Count: 1}, next[Forgotten](t, n))
	})
}

func TestAFailedSecondOpenEndsTheEarlierEpochsSnapshots(t *testing.T) {
	inActor(t, nil, func(t *testing.T, w *world, n *tenant) {
		n.opens(t, 1)
		n.ref.Send(OpenTenant{Grant{Epoch: 1}})
		code(t, messages.CodeLineageAhead, next[Opened](t, n).Err)
		n.ref.Send(Take{})
		require.ErrorIs(t, next[Taken](t, n).Err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonNotPinned})
		n.opens(t, 2)
		n.ref.Send(Take{})
		require.NoError(t, next[Taken](t, n).Err)
	})
}
