package actors_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestAStoreThatPanicsDoesNotLeaveATenantThatNobodyCanUse(t *testing.T) {
	for name, fail := range map[string]func(f *fleet, tenant *actors.Tenant) error{
		"at the release": func(f *fleet, tenant *actors.Tenant) error {
			f.leases.BeforeNext(storetest.OpRelease, func(ctxT, storetest.Call) { panic("a bug in a binding") })
			return tenant.Handoff(within(f.t, time.Minute))
		},
		"at the mark of a forget": func(f *fleet, tenant *actors.Tenant) error {
			f.leases.BeforeNext(storetest.OpForget, func(ctxT, storetest.Call) { panic("a bug in a binding") })
			return tenant.Forget(within(f.t, time.Minute))
		},
		"at the deletion of a forget": func(f *fleet, tenant *actors.Tenant) error {
			f.durable.BeforeNext(storetest.OpDeletePrefix, func(ctxT, storetest.Call) { panic("a bug in a binding") })
			return tenant.Forget(within(f.t, time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				f.t = t
				tenant := open(t, f.start(), "u")
				appendKind(t, tenant, "1")
				begun := time.Now()
				require.ErrorIs(t, fail(f, tenant), messages.ErrInternal)
				require.Less(t, time.Since(begun), 10*time.Second)
				begun = time.Now()
				_, err := tenant.Append(within(t, time.Minute), messages.Event{Kind: "2"})
				require.NoError(t, err)
				require.Less(t, time.Since(begun), 2*ttl)
				require.EqualValues(t, 2, epoch(t, tenant))
			})
		})
	}
}

func TestAPanicOfOnLifecycleEndsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) {
			c.SweepEvery = time.Minute
			c.OnLifecycle = func(messages.Lifecycle) { panic("a bug in the application") }
		})
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		require.EqualValues(t, 1, epoch(t, tenant))
		require.NoError(t, tenant.Forget(t.Context()))
		_, err := f.durable.Inner().PutIfAbsent(t.Context(), tenant.Key().ImageName(1, 7), []byte("late"))
		require.NoError(t, err)
		time.Sleep(2 * time.Minute) // the sweep has something to report
		require.Empty(t, f.copies(tenant.Key()))
		appendKind(t, tenant, "2")
		require.NoError(t, n.Shutdown(within(t, time.Minute)))
	})
}

func TestT2_ANodeOfTheSameNameThatLivesIsNamedAsTheHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		named := func(root string) func(*actors.Config) {
			return func(c *actors.Config) { c.NodeName, c.StateRoot = "same", filepath.Join(f.root, root) }
		}
		a, b := f.start(named("a")), f.start(named("b"))
		tenant := open(t, a, "u")
		begun := time.Now()
		_, err := b.Tenant(within(t, time.Minute), "acme", tenantID(t, "u"))
		var e *messages.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, messages.CodeHeld, e.Code)
		require.Equal(t, a.Owner(), e.Owner)
		require.LessOrEqual(t, time.Since(begun), ttl)
		appendKind(t, tenant, "still served")
	})
}

func TestARegistererServesOneNodeAfterTheOther(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		reg := prometheus.NewRegistry()
		with := func(c *actors.Config) { c.Registerer = reg }
		require.NoError(t, f.start(with).Shutdown(t.Context()))
		n := f.start(with)
		cfg := f.config()
		cfg.StateRoot, cfg.Registerer = filepath.Join(f.root, "third"), reg
		_, err := actors.Start(t.Context(), cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, "the registerer has a living node's metrics")
		families, err := reg.Gather()
		require.NoError(t, err)
		require.NotEmpty(t, families, "the refused node left them alone")
		require.NoError(t, n.Shutdown(t.Context()))
	})
}

func TestAnEvictionIsCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		reg := prometheus.NewRegistry()
		n := f.start(func(c *actors.Config) { c.Registerer, c.MaxOpen = reg, 1 })
		open(t, n, "a")
		open(t, n, "b")
		families, err := reg.Gather()
		require.NoError(t, err)
		got := -1.0
		for _, family := range families {
			if family.GetName() == "leasehold_evictions_total" {
				got = family.GetMetric()[0].GetCounter().GetValue()
			}
		}
		require.EqualValues(t, 1, got)
	})
}

func TestAConfigurationThatCanNeverServeIsRefusedAtTheStart(t *testing.T) {
	for name, change := range map[string]func(*actors.Config){
		"a negative limit":          func(c *actors.Config) { c.Limits.MaxRows = -1 },
		"a migration without SQL":   func(c *actors.Config) { c.Migrations = []ledgeractor.Migration{{Version: 1, Name: "x"}} },
		"a command that is nil":     func(c *actors.Config) { c.Commands = map[string]ledgeractor.Command{"x": nil} },
		"an owner that is too long": func(c *actors.Config) { c.NodeName = strings.Repeat("n", messages.MaxOwnerBytes) },
		"a broken incarnation":      func(c *actors.Config) { c.Incarnation = "a\nb" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := actors.Config{TTL: ttl, Margin: margin}
			change(&cfg)
			require.Error(t, cfg.Validate())
		})
	}
}
