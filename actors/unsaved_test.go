package actors_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/storetest"
)

// TestK5_ALedgerThatIsFullIsHandedOffWhole writes more than an image may hold: what was acknowledged is there afterwards.
func TestK5_ALedgerThatIsFullIsHandedOffWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		small := func(c *actors.Config) { c.Limits.MaxImageBytes = 1 << 20 }
		a := f.start(small)
		tenant := open(t, a, "u")
		acknowledged := 0
		for i := range 30 {
			_, err := tenant.Append(t.Context(), messages.Event{Kind: fmt.Sprint(i), Payload: []byte(`"` + strings.Repeat("x", 100_000) + `"`)})
			if err == nil {
				acknowledged++
				continue
			}
			require.ErrorIs(t, err, messages.ErrTooLarge)
		}
		require.Greater(t, acknowledged, 6)
		require.Less(t, acknowledged, 11)
		require.NoError(t, a.Shutdown(t.Context()))
		require.Len(t, kinds(t, open(t, f.start(small), "u")), acknowledged)
	})
}

// limited is a durable store whose objects cannot be large.
type limited struct {
	stores.DurableStore
	most int64
}

func (l limited) MaxObjectBytes() int64 { return l.most }

func TestK5_ANodeDoesNotStartOnAStoreThatCannotTakeItsImages(t *testing.T) {
	f := newFleet(t)
	cfg := f.config()
	cfg.StateRoot = t.TempDir()
	cfg.Durable = limited{f.durable, 1<<20 - 1}
	for _, most := range []int64{0, 1 << 20} {
		cfg.Limits.MaxImageBytes = most
		_, err := actors.Start(t.Context(), cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument)
	}
	cfg.Limits.MaxImageBytes = 1<<20 - 1
	n, err := actors.Start(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, n.Abort())
}

// gauge reads one metric without labels.
func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func statusOf(t *testing.T, n *actors.Node) actors.Status {
	t.Helper()
	all, err := n.Tenants(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// noPuts lets no put of the durable store take effect.
func (f *fleet) noPuts() (remove func()) {
	return f.durable.Add(func(c storetest.Call) bool { return c.Op == storetest.OpPut }, -1, func(storetest.Call) storetest.Action { return storetest.Fail(nil) })
}

// TestK5_TheUnsavedTailIsBoundedByItsAge has the durable store away for a minute: writes are taken for max_unsaved, and no longer.
func TestK5_TheUnsavedTailIsBoundedByItsAge(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		reg := prometheus.NewRegistry()
		a := f.start(func(c *actors.Config) { c.Registerer = reg })
		tenant := open(t, a, "u")
		appendKind(t, tenant, "saved")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		require.Zero(t, gauge(t, reg, "leasehold_oldest_unsaved_seconds"))

		back := f.noPuts()
		begun, acknowledged, bytes := time.Now(), 1, 0
		for time.Since(begun) < time.Minute {
			e := messages.Event{Kind: fmt.Sprint(acknowledged), Payload: []byte(`"0123456789"`)}
			_, err := tenant.Append(t.Context(), e)
			if time.Since(begun) < 10*snapEvery {
				require.NoError(t, err, "after %v", time.Since(begun))
				acknowledged++
				bytes += e.Size()
			} else {
				require.ErrorIs(t, err, messages.ErrUnsavedLimit, "after %v", time.Since(begun))
				require.Positive(t, messages.AsError(err).RetryAfter)
				require.ErrorIs(t, tenant.Run(t.Context(), func(*ledgeractor.Tx) error { return nil }), messages.ErrUnsavedLimit)
			}
			require.Equal(t, time.Since(begun).Seconds(), gauge(t, reg, "leasehold_oldest_unsaved_seconds"))
			time.Sleep(500 * time.Millisecond)
		}
		require.Len(t, kinds(t, tenant), acknowledged, "it is read as ever")
		s := statusOf(t, a)
		require.True(t, s.UnsavedLimit)
		require.Equal(t, time.Minute, s.UnsavedFor)
		require.EqualValues(t, bytes, s.UnsavedBytes)
		require.Len(t, a.Alarms(), 1)
		require.Equal(t, messages.CodeUnsavedLimit, a.Alarms()[0].Err.Code)
		require.Equal(t, tenant.Key().String(), a.Alarms()[0].Err.Key)

		back()
		time.Sleep(3 * snapEvery)
		require.Zero(t, gauge(t, reg, "leasehold_oldest_unsaved_seconds"))
		require.Empty(t, a.Alarms())
		require.Equal(t, actors.Status{}.UnsavedLimit, statusOf(t, a).UnsavedLimit)
		appendKind(t, tenant, "after")
		require.NoError(t, a.Shutdown(t.Context()))
		require.Len(t, kinds(t, open(t, f.start(), "u")), acknowledged+1)
	})
}

func TestK5_TheUnsavedTailIsBoundedByItsBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		a := f.start(func(c *actors.Config) {
			c.MaxUnsavedBytes = 100_000
			c.Migrations = []ledgeractor.Migration{{Version: 1, Name: "notes", SQL: "CREATE TABLE notes (body TEXT)"}}
		})
		tenant := open(t, a, "u")
		text := strings.Repeat("x", 10_000)
		defer f.noPuts()()
		for range 10 {
			require.NoError(t, tenant.Run(t.Context(), func(tx *ledgeractor.Tx) error {
				_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES (?)", text)
				return err
			}))
		}
		_, err := tenant.Append(t.Context(), messages.Event{Kind: "x"})
		require.ErrorIs(t, err, messages.ErrUnsavedLimit)
		require.Positive(t, statusOf(t, a).UnsavedBytes)
	})
}

// TestK5_ATenantBeyondTheLimitIsStillHandedOff has a handoff fail while nothing can be saved, and succeed when it can, also that of an
// idle tenant.
func TestK5_ATenantBeyondTheLimitIsStillHandedOff(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, a *actors.Node, tenant *actors.Tenant){
		"handoff": func(t *testing.T, _ *actors.Node, tenant *actors.Tenant) {
			require.NoError(t, tenant.Handoff(t.Context()))
		},
		"shutdown": func(t *testing.T, a *actors.Node, _ *actors.Tenant) { require.NoError(t, a.Shutdown(t.Context())) },
		"idle":     func(t *testing.T, _ *actors.Node, _ *actors.Tenant) { time.Sleep(3 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				a := f.start(func(c *actors.Config) {
					c.IdleAfter, c.SnapshotEvery, c.MaxUnsaved = 2*time.Minute, 30*time.Minute, 31*time.Minute
				})
				tenant := open(t, a, "u")
				back := f.noPuts()
				for i := range 31 {
					appendKind(t, tenant, fmt.Sprint(i))
					time.Sleep(time.Minute)
				}
				_, err := tenant.Append(t.Context(), messages.Event{Kind: "x"})
				require.ErrorIs(t, err, messages.ErrUnsavedLimit)
				require.Error(t, tenant.Handoff(t.Context()))
				require.Len(t, kinds(t, tenant), 31)
				back()
				leave(t, a, tenant)
				require.Len(t, kinds(t, open(t, f.start(), "u")), 31)
			})
		})
	}
}
