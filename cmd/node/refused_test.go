package main_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/sqlite"
)

// names returns what is in a folder.
func names(t *testing.T, folder string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		found = append(found, path)
		return err
	}))
	return found
}

// served makes two stores that belong together, with a tenant in them.
func served(t *testing.T, leases, durable string) {
	t.Helper()
	p := run(t, t.TempDir(), "--leases=sqlite:"+leases, "--durable=dir:"+durable)
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"a"}`).status)
	p.terminate()
}

// A start that is refused, for whatever reason, creates nothing, or removes it again.
func TestRun_ARefusedStartLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	world := t.TempDir()
	at := func(name string) string { return filepath.Join(world, name) }
	served(t, at("a.db"), at("a"))
	served(t, at("b.db"), at("b"))
	require.NoError(t, os.WriteFile(at("file"), []byte(strings.Repeat("not a database. ", 100)), 0o600))
	require.NoError(t, os.WriteFile(at("short"), []byte("x"), 0o600))
	require.NoError(t, os.Mkdir(at("mount point"), 0o700))
	other, err := sqlite.Open(t.Context(), sqlite.Config{Path: at("other clock.db"), Now: time.Now})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	nats := freePort(t)
	holder := run(t, at("in use"))
	lease := func(name string) string { return "--leases=sqlite:" + at(name) }
	copies := func(name string) string { return "--durable=dir:" + at(name) }
	embedded := []string{"--nats-embedded", "--nats-listen=" + nats}
	for name, c := range map[string]struct {
		says string
		args []string
	}{
		"a setting out of range":                {"ttl", []string{"--ttl=1ms"}},
		"no tokens":                             {"token_file", []string{"--token-file=" + at("no such")}},
		"the address is taken":                  {"address already in use", []string{"--listen=" + taken.Addr().String()}},
		"a state root below a file":             {"storage", []string{"--state-root=" + at("file/x")}},
		"the state root is in use":              {fmt.Sprintf("process %d on the host ", holder.cmd.Process.Pid), []string{"--state-root=" + at("in use")}},
		"in use, NATS inside":                   {at("in use/node.lock"), append(embedded, "--state-root="+at("in use"))},
		"in use, stores of its own":             {"another node uses this state root", []string{"--state-root=" + at("in use"), lease("new.db"), copies("new")}},
		"no lease store":                        {"corrupt", []string{lease("file")}},
		"no lease store, too short":             {"corrupt", []string{lease("short"), copies("new/copies")}},
		"stores of two deployments":             {"deployment_mismatch", []string{lease("a.db"), copies("b")}},
		"the lease file is gone":                {"does not exist", []string{lease("new/leases.db"), copies("a")}},
		"the copies are gone":                   {"does not exist", []string{lease("a.db"), copies("new/copies")}},
		"the copies are not mounted":            {"deployment_mismatch", []string{lease("a.db"), copies("mount point")}},
		"no lease file possible":                {"storage", []string{lease("file/x/leases.db"), copies("new/copies")}},
		"no lease file possible, mount":         {"storage", []string{lease("file/x/leases.db"), copies("mount point")}},
		"no copies possible":                    {"storage", []string{lease("new/leases.db"), copies("file/x")}},
		"copies out of reach":                   {"unavailable", []string{lease("new/leases.db"), "--durable=nats://127.0.0.1:1?sync=always"}},
		"leases out of reach":                   {"unavailable", []string{"--leases=postgres://nobody@127.0.0.1:1/leases", copies("new/copies")}},
		"leases with another clock":             {"another clock", []string{lease("other clock.db"), copies("new/copies")}},
		"NATS inside, its address is taken":     {"cannot listen", []string{"--nats-embedded", "--nats-listen=" + taken.Addr().String()}},
		"NATS inside, the copies are elsewhere": {"deployment_mismatch", append(embedded, lease("new/leases.db"), copies("a"))},
	} {
		t.Run(name, func(t *testing.T) {
			before := names(t, world)
			args := append([]string{"run", "--listen=127.0.0.1:0", "--state-root=" + at("state/root")}, c.args...)
			_, stderr, code := tool(t, args...)
			require.NotZero(t, code)
			require.Contains(t, stderr, c.says)
			require.Equal(t, before, names(t, world), stderr)
		})
	}
	holder.terminate()
	// What was refused is there for those who have a right to it.
	p := run(t, at("state/root"), lease("a.db"), copies("a"))
	require.Equal(t, []string{"a"}, p.kinds(tenantOne))
	p.terminate()
}
