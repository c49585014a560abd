package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
)

// Every tool finds the stores of a node by what the node itself was started with, and nothing else.
func TestAdmin_EveryToolFindsTheStoresOfANode(t *testing.T) {
	t.Parallel()
	other := t.TempDir()
	nats := freePort(t)
	for name, text := range map[string]string{
		"in the state root": "",
		"elsewhere":         "leases: sqlite:" + other + "/leases.db\ndurable: dir:" + other + "/copies\n",
		"on a server":       "nats_embedded: true\nnats_listen: " + nats + "\nnats_params: cluster=mine\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			config := "--config=" + file(t, "node.yaml", "state_root: "+root+"\nlisten: 127.0.0.1:0\nsnapshot_every: 1h\n"+text)
			p := start(t, command(t, "run", config))
			for n := range 2 {
				require.Equal(t, 200, p.post(path(number(n))+"/events", `{"kind":"a"}`).status)
				require.Equal(t, 204, p.post(path(number(n))+"/handoff", "").status)
			}
			key := "acme/" + number(0)
			ways := []string{config}
			if text == "" {
				ways = append(ways, "--state-root="+root)
			}
			for _, way := range ways {
				require.Len(t, parsed[[]messages.Lease](t, "lease", "show", way), 2)
				require.NotEmpty(t, parsed[[]messages.LeaseEntry](t, "lease", "history", key, way))
				require.False(t, parsed[snapshotactor.Report](t, "snapshots", "list", key, way).Newest.IsEmpty())
				require.NotEmpty(t, parsed[map[string]any](t, "snapshots", "verify", key, way))
				require.NotEmpty(t, parsed[map[string]any](t, "restore", key, "--to="+filepath.Join(t.TempDir(), "x.db"), way))
				require.Contains(t, failed(t, 2, messages.CodeInvalidArgument, "migrate", way).Message, "--leases: ", "it has found one that has no schema")
			}
			require.NotEmpty(t, parsed[map[string]any](t, "forget", "acme/"+number(1), config))
			if name == "on a server" { // which ends with the node
				p.terminate()
				return
			}
			p.terminate()
			require.Contains(t, parsed[map[string]string](t, "rebind", "--yes", config), "deployment")
			require.Len(t, parsed[[]messages.Lease](t, "lease", "reseed", config), 2)
		})
	}
}

// K1: tools that change or trust something refuse two stores on which no node would start.
func TestK1_ToolsRefuseStoresThatDoNotBelongTogether(t *testing.T) {
	t.Parallel()
	world := t.TempDir()
	at := func(name string) string { return filepath.Join(world, name) }
	served(t, at("a.db"), at("a"))
	served(t, at("b.db"), at("b"))
	wrong := []string{"--leases=sqlite:" + at("a.db"), "--durable=dir:" + at("b")}
	before := names(t, world)
	for _, command := range [][]string{{"forget", keyOne}, {"restore", keyOne, "--to=" + at("x.db")}} {
		e := failed(t, 2, messages.CodeDeploymentMismatch, append(command, wrong...)...)
		require.Contains(t, e.Message, at("a.db"))
		require.Contains(t, e.Message, at("b"))
	}
	require.Equal(t, before, names(t, world), "nothing was deleted or written")
	require.Zero(t, parsed[messages.Lease](t, "lease", "show", keyOne, wrong[0]).Floor)
}

// K1: after the durable store was lost, what was restored in its place is bound by rebind, and by nothing else.
func TestK1_RebindByTheCommandLine(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	state := "--state-root=" + root
	p := run(t, root)
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"a"}`).status)
	p.terminate()
	for _, object := range []string{"deployment.json", "deployment-offer.json"} { // of a backup that lacks them
		require.NoError(t, os.Remove(filepath.Join(root, "durable", object)))
	}
	_, stderr, code := tool(t, "run", "--listen=127.0.0.1:0", state)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "deployment_mismatch")
	require.Contains(t, failed(t, 2, messages.CodeInvalidArgument, "rebind", state).Message, "--yes")
	identity := parsed[map[string]string](t, "rebind", "--yes", state)["deployment"]
	require.NotEmpty(t, identity)
	require.Equal(t, identity, parsed[map[string]string](t, "rebind", "--yes", state)["deployment"], "again is no mistake")
	text, _, code := tool(t, "rebind", "--yes", state)
	require.Zero(t, code)
	require.Contains(t, text, identity)
	again := run(t, root)
	require.Equal(t, []string{"a"}, again.kinds(tenantOne))
	again.terminate()
}

// K3: a lease store that was lost is made anew from the copies by reseed, above every epoch and floor that they know.
func TestK3_ReseedByTheCommandLine(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	state := "--state-root=" + root
	p := run(t, root)
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"a"}`).status)
	require.Equal(t, 200, p.post(path(number(2))+"/events", `{"kind":"a"}`).status)
	require.Equal(t, 204, p.post(path(number(2))+"/forget", "").status)
	p.terminate()
	lost, err := filepath.Glob(filepath.Join(root, "leases.db*"))
	require.NoError(t, err)
	require.NotEmpty(t, lost)
	for _, file := range lost {
		require.NoError(t, os.Remove(file))
	}
	_, stderr, code := tool(t, "run", "--listen=127.0.0.1:0", state)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "deployment_mismatch")
	raised := parsed[[]messages.Lease](t, "lease", "reseed", state)
	require.Len(t, raised, 2)
	text, _, code := tool(t, "lease", "reseed", state)
	require.Zero(t, code)
	require.Contains(t, text, "0 records raised", "again is no mistake")
	again := run(t, root)
	require.Equal(t, []string{"a"}, again.kinds(tenantOne))
	require.Equal(t, messages.CodeUnknownTenant, again.get(path(number(2))+"/events").code(), "what was forgotten stays so")
	e := failed(t, 3, messages.CodeHeld, "lease", "reseed", state)
	require.NotEmpty(t, e.Message)
	again.terminate()
}
