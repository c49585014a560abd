package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/drill/cluster"
)

// A small cluster of real processes goes through every step that is quick.
func TestCluster(t *testing.T) {
	for name, args := range map[string][]string{
		"NATS beside the nodes": {"--steps=rolling,upgrade,rollback,join,leave,kill"},
		"NATS inside the nodes": {"--steps=rolling", "--nats-embedded", "--ttl=10s", "--frozen=20s"},
		"leases in SQLite":      {"--steps=rolling", "--leases=sqlite", "--durable=dir"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			report := filepath.Join(dir, "report.json")
			out, code := drillCommand(t, append([]string{"cluster", "--tenants=24", "--rate=60", "--ttl=2s", "--slack=5s", "--dir=" + filepath.Join(dir, "run"), "--report=" + report}, args...)...)
			require.Equal(t, exitOK, code, out)
			data, err := os.ReadFile(report)
			require.NoError(t, err)
			var verdict cluster.Verdict
			require.NoError(t, json.Unmarshal(data, &verdict))
			require.True(t, verdict.OK())
			require.NotEmpty(t, verdict.Steps)
			for _, f := range verdict.Steps {
				require.Zero(t, f.Failed)
				require.NotZero(t, f.Asked, f.Name)
			}
			require.Len(t, verdict.Checks, 4)
			require.NotZero(t, verdict.Steps[0].Handovers)
			require.Contains(t, out, "everything holds")
		})
	}
}

func TestCluster_RefusesWhatCannotWork(t *testing.T) {
	for _, args := range [][]string{
		{"--nodes=1"}, {"--tenants=0"}, {"--rate=0"}, {"--ttl=10ms"}, {"--frozen=1s"}, {"--slack=-1s"}, {"--steps=nonsense"}, {"--steps=leave"},
		{"--nats-embedded", "--nodes=4"}, {"--nats-embedded", "--steps=engine-down"}, {"--nats-embedded", "--leases=sqlite"}, {"--leases=mysql"}, {"--durable=s3"},
	} {
		out, code := drillCommand(t, append([]string{"cluster"}, args...)...)
		require.Equal(t, exitUsage, code, "%v: %s", args, out)
	}
}

func drillCommand(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	var b bytes.Buffer
	code = execute(t.Context(), args, &b, &b)
	return b.String(), code
}
