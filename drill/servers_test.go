package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/drill/run"
	"github.com/leasehold/leasehold/drill/verify"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// TestDrillOnServers: the invariants hold on every kind of lease store and durable store with a server, when that is
// killed and when it is stopped past every lease; and what the run leaves behind is judged the same without it.
func TestDrillOnServers(t *testing.T) {
	for _, kinds := range [][2]engine.Kind{
		{engine.NATS, engine.Dir}, {engine.Postgres, engine.Dir}, {engine.MySQL, engine.Dir}, {engine.S3, engine.S3}, {engine.SQLite, engine.NATS},
	} {
		t.Run(string(kinds[0])+" "+string(kinds[1]), func(t *testing.T) {
			opts := options(t)
			opts.Leases, opts.Durable = kinds[0], kinds[1]
			opts.Only = []run.Step{run.ServerKill, run.ServerStop, run.Handoff}
			opts.Duration = 0
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
			c := verdict.Counts
			require.Equal(t, 1, c.ServerKills)
			require.Equal(t, 1, c.ServerStops)
			require.Zero(t, c.Twice)
			require.Positive(t, c.Acknowledged)
			require.Positive(t, c.Deleted, "retention was at work, and what it deleted was archived")
			if kinds[0].HasServer() {
				require.GreaterOrEqual(t, c.Grants, 2*opts.Tenants, "a lease store that is away past every lease ends them all")
				require.Positive(t, c.Refused["fenced"])
				require.NoFileExists(t, replica.LeasePath(opts.Dir))
			}

			requireSameVerdict(t, verdict, opts.Dir)
			tampered := copyRun(t, opts.Dir)
			require.NoError(t, os.Remove(newest(t, tampered, "base.json")))
			broken, err := verify.Judge(t.Context(), tampered)
			require.NoError(t, err)
			require.Contains(t, broken.Found(), "I4", "a pin that is gone")
			if kinds[0].HasServer() {
				require.NoError(t, os.Remove(replica.TrailsPath(tampered)))
				_, err = verify.Judge(t.Context(), tampered)
				require.ErrorIs(t, err, os.ErrNotExist)
			}
		})
	}
}

// TestBreaksAreFoundOnServers: the evidence from a server's trail and from the copies of its objects is as good as
// that from files.
func TestBreaksAreFoundOnServers(t *testing.T) {
	opts := options(t)
	opts.Leases, opts.Durable, opts.Break = engine.NATS, engine.NATS, "newest-object"
	verdict, err := run.Run(t.Context(), opts)
	require.NoError(t, err)
	require.True(t, run.IsFound(verdict), "%v", verdict.Invariants)
}

func TestAServerThatDoesNotStartIsAnError(t *testing.T) {
	opts := options(t)
	opts.Leases, opts.Server, opts.Duration = engine.NATS, []string{filepath.Join(t.TempDir(), "absent")}, time.Second
	_, err := run.Run(t.Context(), opts)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoDirExists(t, replica.RecordDir(opts.Dir), "and no replica was started")
}
