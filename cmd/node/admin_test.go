package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
)

// parsed wants a command to succeed and to print one JSON document.
func parsed[T any](t *testing.T, args ...string) T {
	t.Helper()
	out, stderr, code := tool(t, append(args, "--json")...)
	require.Equal(t, 0, code, stderr)
	require.Empty(t, stderr)
	var v T
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&v), out)
	require.False(t, d.More())
	return v
}

// failed wants a command to fail with an exit code, and its error to be JSON.
func failed(t *testing.T, exit int, code messages.Code, args ...string) *messages.Error {
	t.Helper()
	_, stderr, got := tool(t, append(args, "--json")...)
	require.Equal(t, exit, got, stderr)
	e := &messages.Error{}
	require.NoError(t, json.Unmarshal([]byte(stderr), e), stderr)
	require.Equal(t, code, e.Code)
	return e
}

// Every admin command, against the stores of a node that runs, and of one that has stopped.
func TestAdmin_EveryCommand(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	state := "--state-root=" + root
	p := run(t, root, "--snapshot-every=1h", "--retain=10")
	for _, kind := range []string{"first", "second"} {
		require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"`+kind+`"}`).status)
		require.Equal(t, 200, p.post(path(tenantOne)+"/snapshot", "").status)
	}
	require.Equal(t, 200, p.post(path(number(2))+"/events", `{"kind":"other tenant"}`).status)

	t.Run("lease show", func(t *testing.T) {
		one := parsed[messages.Lease](t, "lease", "show", keyOne, state)
		require.EqualValues(t, 1, one.Epoch)
		all := parsed[[]messages.Lease](t, "lease", "show", state)
		require.Len(t, all, 2)
		text, _, _ := tool(t, "lease", "show", state)
		require.Contains(t, text, keyOne)
		require.Contains(t, text, "acme/"+number(2))
	})
	t.Run("lease history", func(t *testing.T) {
		trail := parsed[[]messages.LeaseEntry](t, "lease", "history", keyOne, state)
		require.Equal(t, messages.OpAcquire, trail[0].Op)
		text, _, code := tool(t, "lease", "history", keyOne, state)
		require.Zero(t, code)
		require.Contains(t, text, "acquire")
	})
	t.Run("snapshots list", func(t *testing.T) {
		report := parsed[snapshotactor.Report](t, "snapshots", "list", keyOne, state)
		require.Equal(t, messages.Position{Epoch: 1, Snapshot: 2}, report.Newest)
		text, _, code := tool(t, "snapshots", "list", keyOne, state)
		require.Zero(t, code)
		require.Contains(t, text, "e1/snap-2")
		require.Contains(t, text, "next owner begins with e1/snap-2")
	})
	t.Run("snapshots verify", func(t *testing.T) {
		found := parsed[struct {
			Key      messages.Key
			Bytes    int64
			Findings []snapshotactor.Finding
		}](t, "snapshots", "verify", keyOne, state)
		require.Positive(t, found.Bytes)
		require.Empty(t, found.Findings)
		_, stderr, code := tool(t, "snapshots", "verify", keyOne, state, "--progress")
		require.Zero(t, code)
		require.Contains(t, stderr, "verifying")
	})
	t.Run("restore", func(t *testing.T) {
		folder := t.TempDir()
		type restored struct {
			Key      messages.Key
			File     string
			Manifest messages.Manifest
		}
		newest := parsed[restored](t, "restore", keyOne, "--to="+folder+"/newest.db", state)
		require.EqualValues(t, 2, newest.Manifest.Events)
		older := parsed[restored](t, "restore", keyOne, "--to="+folder+"/older.db", "--at=e1/snap-1", state)
		require.EqualValues(t, 1, older.Manifest.Events)
		for file, events := range map[string]int64{"newest.db": 2, "older.db": 1} {
			sum, err := ledgeractor.Verify(t.Context(), filepath.Join(folder, file), messages.Key{Org: "acme", Tenant: tenantOne})
			require.NoError(t, err)
			require.Equal(t, events, sum.Events)
		}
		e := failed(t, 2, messages.CodeInvalidArgument, "restore", keyOne, "--to="+folder+"/newest.db", state)
		require.Contains(t, e.Message, "overwritten")
		failed(t, 1, messages.CodeNotFound, "restore", keyOne, "--to="+folder+"/x.db", "--at=e1/snap-9", state)
		for _, at := range []string{"e1", "snap-1", "e0/snap-1", "e1/snap-1+2", "e1/snap-1 ", "e01/snap-1"} {
			failed(t, 2, messages.CodeInvalidArgument, "restore", keyOne, "--to="+folder+"/x.db", "--at="+at, state)
		}
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, entries, 2, "a refused restore leaves no file")
	})
	t.Run("forget is refused while a node serves", func(t *testing.T) {
		e := failed(t, 3, messages.CodeHeld, "forget", keyOne, state)
		require.NotEmpty(t, e.Owner)
		require.Equal(t, []string{"first", "second"}, p.kinds(tenantOne))
	})
	p.terminate()
	t.Run("forget", func(t *testing.T) {
		type forgotten struct {
			Key     messages.Key
			Floor   uint64
			Objects int
		}
		done := parsed[forgotten](t, "forget", keyOne, state)
		require.EqualValues(t, 2, done.Floor)
		require.Positive(t, done.Objects)
		left, err := os.ReadDir(filepath.Join(root, "durable", "acme", tenantOne))
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Equal(t, "floor-00000002.json", left[0].Name(), "what a reseed needs")
		require.DirExists(t, filepath.Join(root, "durable", "acme", number(2)))
		require.EqualValues(t, 2, parsed[messages.Lease](t, "lease", "show", keyOne, state).Floor)
		failed(t, 1, messages.CodeNotFound, "restore", keyOne, "--to="+t.TempDir()+"/x.db", state)
		// Again is no mistake: it takes the next epoch and finds nothing.
		require.Zero(t, parsed[forgotten](t, "forget", keyOne, state).Objects)
	})
	t.Run("the tenant is unknown until it is written to, the other is unaffected", func(t *testing.T) {
		again := run(t, root)
		require.Equal(t, messages.CodeUnknownTenant, again.get(path(tenantOne)+"/events").code())
		require.Equal(t, 200, again.post(path(tenantOne)+"/events", `{"kind":"anew"}`).status)
		require.Equal(t, []string{"anew"}, again.kinds(tenantOne))
		require.Equal(t, []string{"other tenant"}, again.kinds(number(2)))
		again.terminate()
	})
}

// A damaged copy: exit code 4, the object named; and forget works on a tenant that nobody can open.
func TestAdmin_DamagedCopies(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	state := "--state-root=" + root
	p := run(t, root)
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"a"}`).status)
	p.terminate()
	object := keyOne + "/e00000001/snap-000001.db"
	file := filepath.Join(root, "durable", object)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(file, data, 0o600))

	out, stderr, code := tool(t, "snapshots", "verify", keyOne, state)
	require.Equal(t, 4, code)
	require.Contains(t, out, object)
	require.Contains(t, stderr, object)
	target := filepath.Join(t.TempDir(), "x.db")
	require.Equal(t, object, failed(t, 4, messages.CodeCorrupt, "restore", keyOne, "--to="+target, state).Object)
	require.NoFileExists(t, target)

	manifest := filepath.Join(root, "durable", keyOne, "e00000001", "snap-000001.json")
	require.NoError(t, os.WriteFile(manifest, []byte("{"), 0o600))
	_, stderr, code = tool(t, "snapshots", "list", keyOne, state)
	require.Equal(t, 4, code, stderr)
	require.Contains(t, stderr, "snap-000001.json")

	_, stderr, code = tool(t, "forget", keyOne, state, "--progress")
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stderr, "forgetting")
	again := run(t, root)
	require.Equal(t, messages.CodeUnknownTenant, again.get(path(tenantOne)+"/events").code())
	again.terminate()
}

func TestAdmin_WrongUsage(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := run(t, root)
	p.terminate()
	state := "--state-root=" + root
	for _, args := range [][]string{
		{"migrate", "--leases=sqlite:" + filepath.Join(root, "leases.db")}, {"migrate", "--leases=nats://h"},
		{"lease", "show", "--leases=nats://h"}, {"lease", "history", keyOne, "--leases=redis://h"},
	} {
		require.Contains(t, failed(t, 2, messages.CodeInvalidArgument, args...).Message, "--leases: ")
	}
	e := failed(t, 2, messages.CodeInvalidArgument, "snapshots", "verify", keyOne, "--durable=s3://u:hunter2@bucket", state)
	require.Contains(t, e.Message, "--durable: ")
	require.NotContains(t, e.Message, "hunter2")
	for _, command := range [][]string{{"lease", "show"}, {"lease", "history"}, {"snapshots", "list"}, {"snapshots", "verify"}, {"restore", "--to=x"}, {"forget"}} {
		for _, key := range []string{"acme", "acme/t-1", "Acme/" + tenantOne, "acme/" + tenantOne + "/x", "../" + tenantOne, "acme/" + tenantOne + "\n"} {
			failed(t, 2, messages.CodeInvalidID, append(command, key, state)...)
		}
		if command[1:] == nil || command[0] != "snapshots" || command[1] != "verify" { // which needs no lease
			failed(t, 1, messages.CodeNotFound, append(command, keyOne, state)...)
		}
		// A place without stores is not made one.
		nowhere := filepath.Join(t.TempDir(), "nowhere")
		failed(t, 1, messages.CodeNotFound, append(command, keyOne, "--state-root="+nowhere)...)
		require.NoDirExists(t, nowhere)
	}
	for _, args := range [][]string{{}, {"no-such-command"}, {"lease"}, {"lease", "history"}, {"restore", keyOne}, {"forget", keyOne, "--ttl=1ms", state}} {
		_, stderr, code := tool(t, args...)
		require.Contains(t, []int{1, 2}, code, stderr)
		require.NotEmpty(t, stderr)
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	out, _, code := tool(t, "version")
	require.Zero(t, code)
	require.Contains(t, out, "leasehold")
	require.NotEmpty(t, parsed[map[string]any](t, "version")["go"])
	out, _, code = tool(t, "run", "--help")
	require.Zero(t, code)
	require.Contains(t, out, "LEASEHOLD_LISTEN")
}

// A tool that only looks makes no lease store of an empty file that it was pointed at.
func TestLeaseShow_LeavesAnEmptyFileAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leases.db")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, stderr, code := tool(t, "lease", "show", "--leases=sqlite:"+file)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "not_found")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Zero(t, info.Size())
}
