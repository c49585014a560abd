package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/drill/run"
	"github.com/leasehold/leasehold/drill/verify"
)

// TestMain lets the test binary be what the drill starts: a replica, or a drill of its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "replica" || os.Args[1] == "server" || os.Args[1] == "run") {
		os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "node" {
		os.Exit(asNode(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

func options(t *testing.T) run.Options {
	exe, err := os.Executable()
	require.NoError(t, err)
	return run.Options{Replicas: 3, Tenants: 2, Writers: 3, Pace: 30 * time.Millisecond, Seed: 11,
		Dir: filepath.Join(t.TempDir(), "run"), Exe: []string{exe, "replica"}, Server: []string{exe, "server"}, Out: &output{t}}
}

// output shows what a drill prints when the test fails.
type output struct{ t *testing.T }

func (o *output) Write(p []byte) (int, error) {
	o.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// TestDrill is a whole drill with real processes, of every step. What it leaves behind is then judged again from
// its files alone, and in every way that a broken system would have left it.
func TestDrill(t *testing.T) {
	opts := options(t)
	opts.Only = []run.Step{run.Handoff, run.Freeze, run.Kill, run.Outage, run.LateUpload}
	opts.Duration = 13 * time.Second
	verdict, err := run.Run(t.Context(), opts)
	require.NoError(t, err)
	for _, i := range verdict.Invariants {
		require.Empty(t, i.Broken, i.Name)
	}
	require.True(t, verdict.OK)
	c := verdict.Counts
	require.GreaterOrEqual(t, c.Kills, 2)
	require.GreaterOrEqual(t, c.Freezes, 2)
	require.GreaterOrEqual(t, c.Handoffs, 1+opts.Replicas)
	require.Positive(t, c.Acknowledged)
	require.Positive(t, c.Duplicates, "retries with an idempotency key are answered")
	require.Zero(t, c.Twice)
	require.Positive(t, c.Lost, "a crash loses its tail; a drill that loses nothing has crashed nobody in time")
	require.Positive(t, c.Refused["draining"])
	require.Positive(t, c.Refused["fenced"])
	require.Positive(t, c.Deleted, "retention was at work")
	require.Positive(t, c.Graceful)
	require.Positive(t, c.Crashed)
	for i, gap := range verdict.Gaps {
		require.Positive(t, gap, "t%d", i+1)
	}

	requireSameVerdict(t, verdict, opts.Dir)
	testTampered(t, opts.Dir)
	testVerifyCommand(t, opts.Dir)
}

// testVerifyCommand: the command judges a folder, and its exit code says how.
func testVerifyCommand(t *testing.T, dir string) {
	var out, failed bytes.Buffer
	report := filepath.Join(t.TempDir(), "report.json")
	require.Equal(t, exitOK, execute(t.Context(), []string{"verify", dir, "--report", report}, &out, &failed), failed.String())
	for _, name := range []string{"I1  pass", "I6  pass", "longest time"} {
		require.Contains(t, out.String(), name)
	}
	data, err := os.ReadFile(report)
	require.NoError(t, err)
	var v verify.Verdict
	require.NoError(t, json.Unmarshal(data, &v))
	require.True(t, v.OK)
	require.Len(t, v.Invariants, 6)

	broken := copyRun(t, dir)
	rewrite(t, broken, func(l *record.Line) bool { return l.Kind != record.Intent })
	out.Reset()
	require.Equal(t, exitFail, execute(t.Context(), []string{"verify", broken}, &out, &failed))
	require.Contains(t, out.String(), "I4  FAIL")
}

// TestBreaksAreFound: the drill proves itself with broken parts. `drill run --break all` tries them all.
func TestBreaksAreFound(t *testing.T) {
	for name, invariant := range map[string]string{"no-self-fence": "I3", "newest-object": "I4"} {
		t.Run(name, func(t *testing.T) {
			opts := options(t)
			opts.Break = name
			verdict, err := run.Run(t.Context(), opts)
			require.NoError(t, err)
			require.False(t, verdict.OK)
			require.True(t, run.IsFound(verdict), "%v", verdict.Invariants)
			require.Contains(t, verdict.Found(), invariant)
		})
	}
}

func TestCommandLine(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		say  string
	}{
		"help":            {[]string{"--help"}, exitOK, "fault-injection drill"},
		"help of run":     {[]string{"run", "--help"}, exitOK, "manifest-before-image"},
		"nothing":         {nil, exitUsage, "expected one of"},
		"unknown command": {[]string{"dance"}, exitUsage, "dance"},
		"unknown flag":    {[]string{"run", "--dance"}, exitUsage, "dance"},
		"replicas":        {[]string{"run", "--replicas", "1"}, exitUsage, "replicas"},
		"tenants":         {[]string{"run", "--tenants", "0"}, exitUsage, "tenants"},
		"break":           {[]string{"run", "--break", "no-such-part"}, exitUsage, "known: no-compare-and-set"},
		"step":            {[]string{"run", "--steps", "kill,dance"}, exitUsage, "dance"},
		"leases":          {[]string{"run", "--leases", "stone"}, exitUsage, "sqlite, nats, postgres, mysql, s3"},
		"durable":         {[]string{"run", "--durable", "mysql"}, exitUsage, "dir, nats, s3"},
		"no server":       {[]string{"run", "--steps", "server-kill"}, exitUsage, "needs a store with a server"},
		"no connection":   {[]string{"run", "--steps", "cut"}, exitUsage, "needs a store with a server"},
		"server":          {[]string{"server", "postgres", "x", "y"}, exitFail, "no server that the drill can be"},
		"full folder":     {[]string{"run", "--dir", "."}, exitUsage, "not empty"},
		"no folder":       {[]string{"verify", "no-such-folder"}, exitUsage, "no-such-folder"},
		"no run":          {[]string{"verify", "."}, exitFail, "not the folder of a drill"},
		"replica":         {[]string{"replica", "{}"}, exitUsage, "not complete"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, failed bytes.Buffer
			require.Equal(t, c.code, execute(t.Context(), c.args, &out, &failed))
			require.Contains(t, out.String()+failed.String(), c.say)
		})
	}
}

func TestACancelledDrillLeavesNoProcess(t *testing.T) {
	opts := options(t)
	opts.Only, opts.Duration = []run.Step{run.Freeze}, 3*time.Second
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opts.Out = writerFunc(func(p []byte) {
		if strings.Contains(string(p), ">> STOP") { // one of them is stopped by now, too
			cancel()
		}
	})
	_, err := run.Run(ctx, opts)
	require.ErrorIs(t, err, context.Canceled)
	pids := startedPIDs(t, opts.Dir)
	require.Len(t, pids, opts.Replicas)
	for _, pid := range pids {
		require.False(t, alive(pid), "process %d", pid)
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// startedPIDs returns the ids of the processes that a drill has started.
func startedPIDs(t *testing.T, dir string) (pids []int) {
	lines, err := record.ReadFile(replica.RecordPath(dir, "drill"))
	require.NoError(t, err)
	for _, l := range lines {
		if l.Kind == record.Action && l.Op == "start" {
			pids = append(pids, l.PID)
		}
	}
	return pids
}

// requireSameVerdict judges a run once more: its files alone say what the run said. Only the run knows how long it took, and how late the
// machine was.
func requireSameVerdict(t *testing.T, verdict verify.Verdict, dir string) {
	t.Helper()
	again, err := verify.Judge(t.Context(), dir)
	require.NoError(t, err)
	again.Took, again.Slow, again.TooSlow = verdict.Took, verdict.Slow, verdict.TooSlow
	require.Equal(t, verdict, again, "the files alone say what the run said")
}
