package docs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What marks a snippet whose lines run at once, each in a terminal of its own, and what is run while they do.
const (
	terminalsMarker = "test: three terminals"
	fourthMarker    = "test: the fourth terminal"
)

// patience bounds every wait for a cluster.
const patience = 2 * time.Minute

// The README's cluster forms, answers through every node, and serves the tenants of a node that dies. Another
// process may have the ports of the example, so each of them gets another one.
func TestThreeTerminals(t *testing.T) {
	r := newRunner(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	ports := map[string]string{}
	elsewhere := func(text string) string {
		return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllStringFunc(text, func(address string) string {
			if ports[address] == "" {
				ports[address] = freeAddress(t, ports)
			}
			return ports[address]
		})
	}
	folder := t.TempDir()
	var nodes []*process
	fourth := 0
	for _, s := range snippets(t, "README.md") {
		switch s.marker {
		case terminalsMarker:
			require.Empty(t, nodes, "there is one cluster")
			nodes = r.cluster(ctx, t, folder, elsewhere(s.text))
		case fourthMarker:
			require.NotEmpty(t, nodes, "%s:%d: the cluster comes first", s.file, s.line)
			fourth++
			path := pretend(t, "pkill", pkillEnv) + ":" + pretend(t, "curl", curlEnv) + ":" + os.Getenv("PATH")
			r.runWithin(ctx, t, folder, elsewhere(s.text), "PATH="+path, pkillable(nodes))
		}
	}
	require.Len(t, nodes, 3)
	require.Equal(t, 2, fourth)
	var killed *exec.ExitError
	require.ErrorAs(t, nodes[1].cmd.Wait(), &killed)
	require.Equal(t, syscall.SIGKILL, killed.Sys().(syscall.WaitStatus).Signal(), "it was killed by the document")
}

// cluster starts the nodes, all before any of them is waited for, and waits until each sees all of them.
func (r runner) cluster(ctx context.Context, t *testing.T, folder, text string) (nodes []*process) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\\\n", "")), "\n") {
		n := r.launch(ctx, t, folder, line)
		// Without the one that is dead, a second one that ends takes NATS away from the third: they could not hand off.
		t.Cleanup(func() {
			_ = n.cmd.Process.Kill()
			_ = n.cmd.Wait() // of one that was waited for before
			if t.Failed() {
				t.Logf("%s\n%s", n.line, n.errs)
			}
		})
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.listening(t)
	}
	for _, n := range nodes {
		for n.members(ctx, t) != len(nodes) {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("%s does not see all members: %v", n.address, ctx.Err())
			}
		}
	}
	return nodes
}

// members returns how many members a node sees.
func (p *process) members(ctx context.Context, t *testing.T) int {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.address+"/v1/members", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var view struct{ Members []any }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&view))
	return len(view.Members)
}

// freeAddress finds an address that nobody listens on, below the ports from which the system takes those of
// outgoing connections and those that a test asks for with port 0.
func freeAddress(t *testing.T, taken map[string]string) string {
	t.Helper()
search:
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.N(12_000))
		for _, other := range taken {
			if other == address {
				continue search
			}
		}
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, l.Close())
		return address
	}
}

// The pkill that stands in for the real one kills nobody unless a pattern means exactly one.
func TestThreeTerminals_APatternMeansOneProcess(t *testing.T) {
	t.Setenv(pkillOf, "0 node run --node-name a --x\n0 node run --node-name b --x\n")
	require.ErrorContains(t, pkill([]string{"-9", "-f", "node-name"}), "matches 2")
	require.ErrorContains(t, pkill([]string{"-9", "-f", "node-name c "}), "matches 0")
	require.ErrorContains(t, pkill([]string{"-9", "node"}), "is not known")
	require.Error(t, pkill([]string{"-9", "-f", "("}))
}
