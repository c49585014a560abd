package snapshotactor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/stores/storetest"
)

// scenarios show, each for one planted fault, that its rule is needed: the scenario ends well with the
// correct protocol, and badly with the fault. They return "" for a good end, else what went wrong.
var scenarios = map[planted.Fault]func(t *testing.T, w *world, faults planted.Set) string{
	planted.ListBeforeGrant: func(t *testing.T, w *world, faults planted.Set) string {
		a := w.opened(1)
		_, err := a.publish(t, "one")
		require.NoError(t, err)
		stale, err := ListNames(context.Background(), a.cfg)
		require.NoError(t, err)
		_, err = a.publish(t, "one two")
		require.NoError(t, err)
		b := w.node(func(c *Config) { c.Planted = faults })
		require.NoError(t, b.openAt(Grant{Epoch: 2, Stale: stale}))
		return differs("one two", wordsIn(t, b.cfg.File))
	},
	planted.AdoptOwnBase: func(t *testing.T, w *world, faults planted.Set) string {
		w.opened(1)
		return succeeds(w.node(func(c *Config) { c.Planted = faults }).open(1))
	},
	planted.PinAnswerGuessed: func(t *testing.T, w *world, faults planted.Set) string {
		w.store.ConflictNext("e00000002/base.json", []byte(`somebody else's`))
		return succeeds(w.node(func(c *Config) { c.Planted = faults }).open(2))
	},
	planted.NewestObject: func(t *testing.T, w *world, faults planted.Set) string {
		// Epoch 2 never came to pin, yet an upload of it is there; epoch 3 went on without it.
		a := w.opened(1)
		_, err := a.publish(t, "one")
		require.NoError(t, err)
		require.Equal(t, "one", w.holds(3))
		aside := w.node(nil)
		fake, err := NewPublisher(aside.cfg, Restored{Base: messages.Base{Kind: messages.KindBase, Key: testKey.String(), Epoch: 2}})
		require.NoError(t, err)
		_, err = fake.Publish(context.Background(), imageOf(t, "stray"))
		require.NoError(t, err)
		b := w.node(func(c *Config) { c.Planted = faults })
		require.NoError(t, b.open(4))
		return differs("one", wordsIn(t, b.cfg.File))
	},
	planted.IgnoreFloor: func(t *testing.T, w *world, faults planted.Set) string {
		a := w.opened(1)
		_, err := a.publish(t, "forgotten")
		require.NoError(t, err)
		b := w.node(func(c *Config) { c.Planted = faults })
		require.NoError(t, b.openAt(Grant{Epoch: 2, Floor: 1}))
		return differs("", wordsIn(t, b.cfg.File))
	},
	planted.PinBeforeVerify: func(t *testing.T, w *world, faults planted.Set) string {
		a := w.opened(1)
		for _, words := range []string{"one", "one two"} {
			_, err := a.publish(t, words)
			require.NoError(t, err)
		}
		w.replace(testKey.ImageName(1, 2), []byte("rotten"))
		code(t, messages.CodeCorrupt, w.node(func(c *Config) { c.Planted = faults }).open(2))
		// The operator takes the damaged snapshot away. The tenant must open again.
		for _, name := range []string{testKey.ManifestName(1, 2), testKey.ImageName(1, 2)} {
			_, err := w.store.Delete(context.Background(), name)
			require.NoError(t, err)
		}
		if err := w.node(nil).open(3); err != nil {
			return err.Error()
		}
		return ""
	},
	planted.NoVerify: func(t *testing.T, w *world, faults planted.Set) string {
		a := w.opened(1)
		_, err := a.publish(t, "one")
		require.NoError(t, err)
		w.replace(testKey.ImageName(1, 1), []byte("rotten"))
		return succeeds(w.node(func(c *Config) { c.Planted = faults }).open(2))
	},
	planted.ManifestBeforeImage: func(t *testing.T, w *world, faults planted.Set) string {
		n, own := w.through(func(c *Config) { c.Planted = faults })
		crash(own, 4, storetest.Fail(nil)) // after the first put of the first snapshot
		_, err := n.live(t, 1)
		require.Error(t, err)
		return fails(w.node(nil).open(2))
	},
	planted.ImageTimeoutOK: func(t *testing.T, w *world, faults planted.Set) string {
		n := w.node(func(c *Config) { c.Planted = faults })
		require.NoError(t, n.open(1))
		w.store.FailNext(storetest.OpPut, nil)
		_, err := n.publish(t, "one")
		require.NoError(t, err)
		return fails(w.node(nil).open(2))
	},
	planted.RecutNumber: func(t *testing.T, w *world, faults planted.Set) string {
		n := w.node(func(c *Config) { c.Planted = faults })
		require.NoError(t, n.open(1))
		w.store.LoseNext(storetest.OpPut, nil)
		_, _ = n.publish(t, "one")
		_, _ = n.publish(t, "one two")
		return differs("", n.fence.closedFor()) // its own bytes fence it
	},
	planted.SnapshotGap: func(t *testing.T, w *world, faults planted.Set) string {
		n := w.node(func(c *Config) { c.Planted = faults })
		require.NoError(t, n.open(1))
		w.store.FailNext(storetest.OpPut, nil)
		_, _ = n.publish(t, "one")
		// Its successor seals the next number while it is paused; it must meet the seal.
		require.NoError(t, w.node(nil).open(2))
		_, err := n.publish(t, "one two")
		return succeedsIf(n.publisher.Published() > 1 || n.fence.closedFor() == "", err)
	},
	planted.CleanupHalfPublished: func(t *testing.T, w *world, faults planted.Set) string {
		n := w.node(func(c *Config) { c.Planted = faults })
		require.NoError(t, n.open(1))
		w.store.LoseNext(storetest.OpPut, nil)
		w.store.LateNext(storetest.OpDelete, -1)
		_, err := n.publish(t, "one")
		require.NoError(t, err)
		w.store.ReleaseLate()
		return fails(w.node(nil).open(2))
	},
	planted.ConfirmWithoutFence: func(t *testing.T, w *world, faults planted.Set) string {
		n := w.node(func(c *Config) { c.Planted = faults })
		require.NoError(t, n.open(1))
		n.fence.Close(messages.ReasonExpiredLocally)
		_, err := n.publish(t, "one")
		return succeeds(err)
	},
	planted.IgnoreSlotTaken: func(t *testing.T, w *world, faults planted.Set) string {
		n := w.node(func(c *Config) { c.Planted = faults })
		require.NoError(t, n.open(1))
		w.opened(2)
		_, err := n.publish(t, "one")
		return succeeds(err)
	},
	planted.RetentionOwnBase: func(t *testing.T, w *world, faults planted.Set) string {
		n := retainedOnce(t, w, faults)
		_, ok, err := w.store.Get(context.Background(), testKey.BaseName(n.restored.Base.Epoch), 1<<30)
		require.NoError(t, err)
		if ok {
			return ""
		}
		return "the own base is gone"
	},
	planted.RetentionSweepsSeals: func(t *testing.T, w *world, faults planted.Set) string {
		zombie := w.opened(1)
		_, err := zombie.publish(t, "one")
		require.NoError(t, err)
		n := w.node(func(c *Config) { c.Planted = faults })
		require.NoError(t, n.open(2))
		_, err = n.publish(t, "one two")
		require.NoError(t, err)
		_, err = Retain(context.Background(), n.cfg, 2, 1, Retention{})
		require.NoError(t, err)
		_, err = zombie.publish(t, "one lost") // its clock stands still
		return succeeds(err)
	},
	planted.ForgetTenantPrefix: func(t *testing.T, w *world, faults planted.Set) string {
		a := w.node(func(c *Config) { c.Planted = faults })
		require.NoError(t, a.open(1))
		w.store.LateNext(storetest.OpDeletePrefix, -1)
		_, err := DeleteForgotten(context.Background(), a.cfg, 1)
		require.NoError(t, err)
		b := w.node(nil)
		require.NoError(t, b.openAt(Grant{Epoch: 2, Floor: 1}))
		_, err = b.publish(t, "new")
		require.NoError(t, err)
		w.store.ReleaseLate()
		c := w.node(nil)
		require.NoError(t, c.openAt(Grant{Epoch: 3, Floor: 1}))
		return differs("new", wordsIn(t, c.cfg.File))
	},
}

// retainedOnce is a node at epoch 2 that has retained from its second snapshot.
func retainedOnce(t *testing.T, w *world, faults planted.Set) *node {
	a := w.opened(1)
	_, err := a.publish(t, "one")
	require.NoError(t, err)
	n := w.node(func(c *Config) { c.Planted = faults })
	require.NoError(t, n.open(2))
	for _, words := range []string{"one two", "one two three"} {
		_, err := n.publish(t, words)
		require.NoError(t, err)
	}
	_, err = Retain(context.Background(), n.cfg, 2, 2, Retention{})
	require.NoError(t, err)
	return n
}

func differs(want, got string) string {
	if want != got {
		return "want " + want + ", got " + got
	}
	return ""
}

func succeeds(err error) string { return succeedsIf(err == nil, err) }

func succeedsIf(bad bool, err error) string {
	if bad {
		return "it went on"
	}
	return ""
}

func fails(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestEveryPlantedFaultIsFound(t *testing.T) {
	for fault, scenario := range scenarios {
		t.Run(fault.String(), func(t *testing.T) {
			require.Empty(t, scenario(t, newWorld(t), 0), "with the correct protocol")
			require.NotEmpty(t, scenario(t, newWorld(t), planted.Of(fault)), "with the fault")
		})
	}
}

func TestEachFaultOfThisPackageHasATest(t *testing.T) {
	elsewhere := map[planted.Fault]string{
		planted.NoSeal:            "TestS12_PlantedFaultsOfPausedHoldersAreFound",
		planted.SealBaseSlotsOnly: "TestS12_PlantedFaultsOfPausedHoldersAreFound",
		planted.NumbersAsText:     "TestPlantedFaultsOfTheRestoreAlgorithmAreFound",
		// The supervisor's: it decides when to serve, and when a renewal was sent.
		planted.ServeBeforePin: "", planted.RetentionNoRenewal: "", planted.RetentionRenewalBefore: "",
		planted.ForgetDeleteFirst: "", planted.ForgetResume: "",
	}
	ranges := [][2]planted.Fault{{planted.ListBeforeGrant, planted.NoVerify}, {planted.IgnoreSlotTaken, planted.ForgetResume}}
	for _, r := range ranges {
		for fault := r[0]; fault <= r[1]; fault++ {
			_, here := scenarios[fault]
			_, there := elsewhere[fault]
			require.True(t, here != there, "%v", fault)
		}
	}
}
