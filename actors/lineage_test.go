package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

// land puts an object into the durable store, past every planned fault.
func (f *fleet) land(name string, v any) {
	f.t.Helper()
	data, err := json.Marshal(v)
	require.NoError(f.t, err)
	created, err := f.durable.Inner().PutIfAbsent(f.t.Context(), name, data)
	require.NoError(f.t, err)
	require.True(f.t, created, name)
}

func baseOf(key messages.Key, epoch uint64, owner string) messages.Base {
	return messages.Base{Kind: messages.KindBase, Version: messages.LineageVersion, Key: key.String(), Epoch: epoch, Owner: owner, Nonce: "another attempt"}
}

func (f *fleet) record(key messages.Key) messages.Lease {
	f.t.Helper()
	lease, _, err := f.leases.Inner().Read(f.t.Context(), key)
	require.NoError(f.t, err)
	return lease
}

func alarms(n *actors.Node) []messages.Code {
	out := []messages.Code{}
	for _, a := range n.Alarms() {
		out = append(out, a.Err.Code)
	}
	return out
}

func TestK3_ABaseAtOrAboveTheEpochIsNeverSteppedOver(t *testing.T) {
	for name, landed := range map[string]any{
		"a base of another node at the epoch":        baseOf(testKey(t), 1, "node-9#gone"),
		"a base of another node above the epoch":     baseOf(testKey(t), 5, "node-9#gone"),
		"a base of this node's own, above it":        baseOf(testKey(t), 5, "node-1#fixed"),
		"a base of this node's last life":            baseOf(testKey(t), 1, "node-1#before"),
		"a seal of another":                          messages.Seal{Kind: messages.KindSeal, Version: messages.LineageVersion, Key: testKey(t).String(), Epoch: 1, By: 2},
		"something that is not an object of ours":    "junk",
		"this node's own at the epoch, and above it": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				f.t = t
				key := testKey(t)
				n := f.start(func(c *actors.Config) { c.Incarnation = "fixed" })
				switch base, ok := landed.(messages.Base); {
				case landed == nil:
					f.land(key.BaseName(1), baseOf(key, 1, n.Owner()))
					f.land(key.BaseName(2), baseOf(key, 2, n.Owner()))
				case ok:
					f.land(key.BaseName(base.Epoch), base)
				default:
					f.land(key.BaseName(1), landed)
				}
				before := f.objects(key)
				err := openErr(t, n, key)
				require.ErrorIs(t, err, messages.ErrLineageAhead)
				require.Contains(t, err.Error(), "The lease store was lost", "the procedure is named")
				require.Equal(t, []messages.Code{messages.CodeLineageAhead}, alarms(n))
				require.Equal(t, []uint64{1}, f.grants(key), "it was not stepped over")
				require.False(t, f.record(key).End.After(time.Now()), "the lease was handed back")
				require.Equal(t, before, f.objects(key))
				require.NoDirExists(t, filepath.Join(f.root, "node-1", "orgs"))
			})
		})
	}
}

// openErr opens a tenant, and waits up to an hour for that.
func openErr(t *testing.T, n *actors.Node, key messages.Key) error {
	_, err := tryOpen(within(t, time.Hour), n, key.Tenant)
	return err
}

func testKey(t *testing.T) messages.Key {
	return messages.Key{Org: "acme", Tenant: tenantID(t, "u")}
}

// The tenant's actor was restarted: this process still holds the epoch, and has pinned it.
func TestK3_ABaseOfThisIncarnationCostsAnEpochAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n, key := f.start(), testKey(t)
		f.land(key.BaseName(1), baseOf(key, 1, n.Owner()))
		require.EqualValues(t, 2, epoch(t, open(t, n, "u")))
		require.Empty(t, alarms(n))
	})
}

// An attempt gave up without knowing what became of its pin, and of its release. The next one does not take its epoch over.
func TestK3_ALatePinOfAnAttemptThatWasGivenUpDoesNoHarm(t *testing.T) {
	for name, when := range map[string]storetest.Op{"before the listing": storetest.OpList, "before the pin": storetest.OpPut} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				f.t = t
				n, key := f.start(), testKey(t)
				f.durable.LateNext(storetest.OpPut, -1)
				failing := f.durable.Every(storetest.OpPut, storetest.Fail(nil))
				f.leases.FailNext(storetest.OpRelease, nil)
				err := openErr(t, n, key)
				require.ErrorIs(t, err, messages.ErrUnavailable)
				failing()
				f.durable.BeforeNext(when, func(ctxT, storetest.Call) { require.Equal(t, 1, f.durable.ReleaseLate()) })
				require.Eventually(t, func() bool { return openErr(t, n, key) == nil }, time.Minute, time.Second)
				require.EqualValues(t, 2, epoch(t, open(t, n, "u")))
				require.Contains(t, f.objects(key), key.BaseName(1))
				require.Empty(t, alarms(n))
			})
		})
	}
}

// Who was paused during its open and wakes up under a successor has lost its lease, and that is all.
func TestK3_WhoWasOvertakenDuringItsOpenHasLost(t *testing.T) {
	for name, gated := range map[string]storetest.Op{"before the listing": storetest.OpList, "before the pin, which meets the successor's seal": storetest.OpPut} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				f.t = t
				slow := f.start(func(c *actors.Config) { c.DurableTimeout = time.Hour })
				reached, release := f.durable.GateNext(gated)
				overtaken := make(chan error, 1)
				go func() {
					err := openErr(t, slow, testKey(t))
					overtaken <- err
				}()
				<-reached
				f.cutOff(slow.Owner())
				time.Sleep(ttl)
				next := f.start()
				tenant := open(t, next, "u")
				appendKind(t, tenant, "1")
				release()
				err := <-overtaken
				require.ErrorIs(t, err, messages.ErrLost)
				require.Equal(t, next.Owner(), messages.AsError(err).Owner)
				require.Empty(t, alarms(slow))
				require.EqualValues(t, 2, epoch(t, tenant))
				require.Equal(t, []string{"1"}, kinds(t, tenant))
			})
		})
	}
}

func TestK3_WithoutTheRecordNothingIsConcluded(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n, key := f.start(), testKey(t)
		f.land(key.BaseName(3), baseOf(key, 3, "node-9#gone"))
		f.leases.FailNext(storetest.OpRead, nil)
		err := openErr(t, n, key)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		require.Empty(t, alarms(n))
		// The operator has put things right: with the first successful open the alarm ends.
		err = openErr(t, n, key)
		require.ErrorIs(t, err, messages.ErrLineageAhead)
		require.NotEmpty(t, alarms(n))
		require.NoError(t, os.Remove(filepath.Join(f.root, "durable", filepath.FromSlash(key.BaseName(3)))))
		time.Sleep(time.Minute)
		open(t, n, "u")
		require.Empty(t, alarms(n))
	})
}

// A lease record that was made after a loss knows no lineage: no number of tries makes it serve what it does not know.
func TestK3_CopiesThatTheRecordDoesNotKnowAreNeverSteppedOver(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n, key := f.start(), testKey(t)
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		require.NoError(t, n.Shutdown(t.Context()))
		lost, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(f.root, "new.db"), NoSync: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, lost.Close()) }()
		_, err = stores.Rebind(t.Context(), lost, f.durable.Inner()) // an operator who has not reseeded it
		require.NoError(t, err)
		n = f.start(func(c *actors.Config) { c.Leases = lost })
		defer func() { require.NoError(t, n.Abort()) }()
		before := f.objects(key)
		for range 5 {
			err = openErr(t, n, key)
			require.ErrorIs(t, err, messages.ErrLineageAhead)
			time.Sleep(2 * time.Minute)
		}
		require.Equal(t, before, f.objects(key))
	})
}

func TestK2_AMarkedLineageWithoutCopiesIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n, key := f.start(), testKey(t)
		appendKind(t, open(t, n, "u"), "1")
		require.NoError(t, n.Shutdown(t.Context()))
		require.True(t, f.record(key).HasLineage())
		// The folder is empty, or was not mounted.
		folder := filepath.Join(f.root, "durable", string(key.Org))
		require.NoError(t, os.Rename(folder, filepath.Join(f.root, "aside")))
		n = f.start()
		err := openErr(t, n, key)
		require.ErrorIs(t, err, messages.ErrLineageMissing)
		require.Contains(t, err.Error(), "The durable store was lost", "the way out is named")
		require.Equal(t, []messages.Code{messages.CodeLineageMissing}, alarms(n))
		require.Empty(t, f.objects(key))
		require.NoDirExists(t, filepath.Join(f.root, "node-2", "orgs"))
		require.False(t, f.record(key).End.After(time.Now()), "the lease was handed back")
		// It was mounted: everything is there.
		require.NoError(t, os.Rename(filepath.Join(f.root, "aside"), folder))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"1"}, kinds(t, open(t, n, "u")))
		require.Empty(t, alarms(n))
	})
}

// The record learns it before anybody is answered, once, whatever becomes of the answers; and a forget ends it.
func TestK2_ARecordLearnsOnceThatThereAreCopies(t *testing.T) {
	for name, c := range map[string]struct {
		plan  func(f *fleet)
		marks int
	}{
		"answered":           {func(*fleet) {}, 1},
		"its answer is lost": {func(f *fleet) { f.leases.LoseNext(storetest.OpLineage, nil) }, 2},
		"it is lost":         {func(f *fleet) { f.leases.FailNext(storetest.OpLineage, nil) }, 2},
		"it lands late":      {func(f *fleet) { f.leases.LateNext(storetest.OpLineage, 10*time.Millisecond) }, 2},
		"the store is away": {func(f *fleet) {
			for range 5 {
				f.leases.FailNext(storetest.OpLineage, nil)
			}
		}, 6},
		"the second one hangs": {func(f *fleet) {
			f.leases.FailNext(storetest.OpLineage, nil)
			f.leases.HangNext(storetest.OpLineage)
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				f.t = t
				key, marks := testKey(t), 0
				f.leases.Before(storetest.OpLineage, func(ctxT, storetest.Call) { marks++ })
				c.plan(f)
				n := f.start()
				tenant := open(t, n, "u")
				require.True(t, f.record(key).HasLineage())
				appendKind(t, tenant, "1")
				require.NoError(t, tenant.Handoff(t.Context()))
				require.Equal(t, []string{"1"}, kinds(t, open(t, n, "u")))
				require.Equal(t, c.marks, marks, "one for each tenant's life, not for each open")
				require.NoError(t, tenant.Forget(t.Context()))
				require.False(t, f.record(key).HasLineage())
				appendKind(t, open(t, n, "u"), "2")
				require.Equal(t, f.record(key).Epoch, f.record(key).Lineage)
				require.Empty(t, alarms(n))
			})
		})
	}
}

// A refusal is no reason to serve without it.
func TestK2_WhoCannotMarkItsLineageDoesNotServe(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n, key := f.start(), testKey(t)
		f.leases.BeforeNext(storetest.OpLineage, func(ctx ctxT, _ storetest.Call) {
			require.NoError(t, f.leases.Inner().Release(ctx, key, n.Owner(), 1))
		})
		err := openErr(t, n, key)
		require.ErrorIs(t, err, messages.ErrLost)
		appendKind(t, open(t, n, "u"), "1")
	})
}

// Who is overtaken by a forget finds nothing where there was something, and that is no damage.
func TestK2_WhoWasOvertakenByAForgetHasLost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		first := f.start()
		appendKind(t, open(t, first, "u"), "1")
		require.NoError(t, first.Shutdown(t.Context()))
		slow := f.start(func(c *actors.Config) { c.DurableTimeout = time.Hour })
		reached, release := f.durable.GateNext(storetest.OpList)
		overtaken := make(chan error, 1)
		go func() {
			err := openErr(t, slow, testKey(t))
			overtaken <- err
		}()
		<-reached
		f.cutOff(slow.Owner())
		time.Sleep(ttl)
		require.NoError(t, open(t, f.start(), "u").Forget(t.Context()))
		release()
		require.ErrorIs(t, <-overtaken, messages.ErrLost)
		require.Empty(t, alarms(slow))
	})
}

// The lease store is lost: nodes refuse, loudly; it is reseeded; nodes serve, at higher epochs, and what was forgotten stays so.
func TestK3_AReseededLeaseStoreServesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		for i, subject := range []string{"a", "b", "c"} {
			for range i + 1 { // a few epochs each
				tenant := open(t, n, subject)
				appendKind(t, tenant, subject)
				require.NoError(t, tenant.Handoff(t.Context()))
			}
		}
		gone := open(t, n, "gone")
		appendKind(t, gone, "secret")
		require.NoError(t, gone.Handoff(t.Context()))
		require.NoError(t, gone.Forget(t.Context()))
		running := open(t, n, "running")
		before, durable := f.leases.Inner(), f.durable.Inner()
		_, err := stores.Reseed(t.Context(), before, durable, stores.ReseedOptions{})
		require.ErrorIs(t, err, messages.ErrHeld, "a node runs")
		require.NoError(t, running.Handoff(t.Context()))
		require.NoError(t, n.Shutdown(t.Context()))
		// A leftover that lands after the forget, and was not swept.
		_, err = durable.PutIfAbsent(t.Context(), gone.Key().ImageName(1, 1), []byte("late"))
		require.NoError(t, err)

		empty, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(f.root, "new.db"), NoSync: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, empty.Close()) }()
		fresh := func(c *actors.Config) { c.Leases = empty }
		_, err = stores.Rebind(t.Context(), empty, durable) // as by an operator who forgets to reseed: else no node starts
		require.NoError(t, err)
		n = f.start(fresh)
		subjects := []string{"a", "b", "c", "gone"}
		for _, subject := range subjects {
			err := openErr(t, n, messages.Key{Org: "acme", Tenant: tenantID(t, subject)})
			require.ErrorIs(t, err, messages.ErrLineageAhead, subject)
			require.Contains(t, err.Error(), "lease reseed")
		}
		require.Len(t, alarms(n), len(subjects))
		require.NoError(t, n.Shutdown(t.Context()))

		raised, err := stores.Reseed(t.Context(), empty, durable, stores.ReseedOptions{})
		require.NoError(t, err)
		require.Len(t, raised, len(subjects)+1)
		again, err := stores.Reseed(t.Context(), empty, durable, stores.ReseedOptions{})
		require.NoError(t, err)
		require.Empty(t, again)

		n = f.start(fresh)
		for i, subject := range []string{"a", "b", "c"} {
			tenant := open(t, n, subject)
			old, _, err := before.Read(t.Context(), tenant.Key())
			require.NoError(t, err)
			require.Greater(t, epoch(t, tenant), old.Epoch)
			require.Len(t, kinds(t, tenant), i+1)
			appendKind(t, tenant, "more")
		}
		lease, _, err := empty.Read(t.Context(), gone.Key())
		require.NoError(t, err)
		require.False(t, lease.Exists(), "what was forgotten stays so")
		require.Empty(t, kinds(t, open(t, n, "gone")))
		require.Empty(t, alarms(n))
		require.NoError(t, n.Shutdown(t.Context()))
	})
}

// Opens that fail for the same reason back off, each tenant by itself.
func TestOpensThatFailBackOff(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		broken := true
		n := f.start(func(c *actors.Config) {
			c.Migrations = []ledgeractor.Migration{{Version: 1, Name: "one", Apply: func(context.Context, *ledgeractor.Tx) error {
				if broken {
					return errors.New("not today")
				}
				return nil
			}}}
		})
		key := testKey(t)
		var first error
		for range 900 {
			err := openErr(t, n, key)
			require.Error(t, err)
			if first == nil {
				first = err
			}
			require.Equal(t, messages.CodeOf(first), messages.CodeOf(err), "the reason")
			time.Sleep(100 * time.Millisecond)
		}
		used, left := len(f.grants(key)), len(f.objects(key))
		t.Logf("900 failed opens in 90 s: %d epochs, %d objects", used, left)
		require.LessOrEqual(t, used, 8)
		require.Zero(t, left, "a migration is tried before anything is published")
		err := openErr(t, n, key)
		require.Positive(t, messages.AsError(err).RetryAfter)
		require.LessOrEqual(t, messages.AsError(err).RetryAfter, time.Minute)
		broken = false
		open(t, n, "another") // is not held up
		time.Sleep(time.Minute)
		open(t, n, "u")
	})
}
