package main

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/run"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// TestDrillOfConnections: the invariants hold when the connections with the servers are cut, fall silent, are slow, lose
// answers and are reset; everybody comes back by himself; and the faults have hit something.
func TestDrillOfConnections(t *testing.T) {
	for name, c := range map[string]struct {
		leases, durable engine.Kind
		steps           []run.Step
	}{
		"postgres":    {engine.Postgres, engine.Dir, []run.Step{run.Cut, run.Reset}},
		"nats":        {engine.NATS, engine.NATS, []run.Step{run.HalfClose, run.LostAnswers}},
		"mysql":       {engine.MySQL, engine.Dir, []run.Step{run.Slow, run.HalfClose}},
		"s3":          {engine.S3, engine.S3, []run.Step{run.LostAnswers, run.Reset}},
		"copies only": {engine.SQLite, engine.S3, []run.Step{run.Cut, run.HalfClose}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := options(t)
			opts.Leases, opts.Durable, opts.Only, opts.Duration = c.leases, c.durable, c.steps, 0
			for _, s := range opts.Only {
				opts.Duration += s.Cost()
			}
			verdict, err := run.Run(t.Context(), opts)
			if errors.Is(err, servers.ErrNotInstalled) && os.Getenv("CI") == "" {
				t.Skip(err)
			}
			require.NoError(t, err)
			for _, i := range verdict.Invariants {
				require.Empty(t, i.Broken, i.Name)
			}
			require.True(t, verdict.OK)
			require.Zero(t, verdict.Counts.Twice)
			require.Positive(t, verdict.Counts.Acknowledged)
			require.Len(t, verdict.Counts.Wire, len(c.steps))
			for _, s := range c.steps {
				w := verdict.Counts.Wire[string(s)]
				require.Equal(t, 1, w.Times, "%s", s)
				hit := w.Answers
				if s == run.Cut || s == run.Reset {
					hit = w.Connections
				}
				require.Positive(t, hit, "%s", s)
				if c.leases.HasServer() && (s == run.Cut || s == run.HalfClose) {
					require.Greater(t, verdict.Counts.Grants, opts.Tenants, "others took over")
				}
			}
			requireSameVerdict(t, verdict, opts.Dir)
		})
	}
}

// TestACutFindsWhoNeverFencesItself: a replica that is cut off learns nothing from the lease store, so that its own
// clock is all that it has.
func TestACutFindsWhoNeverFencesItself(t *testing.T) {
	opts := options(t)
	opts.Leases, opts.Break, opts.Only = engine.NATS, "no-self-fence", []run.Step{run.Cut}
	verdict, err := run.Run(t.Context(), opts)
	require.NoError(t, err)
	require.True(t, run.IsFound(verdict), "%v", verdict.Invariants)
}
