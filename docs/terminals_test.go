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
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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

	// What operations.md says of a member that is lost for good: its disk is gone, and another one takes its place, with
	// its name and addresses. When it has caught up it has what the others have, so that one of these can be lost next.
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "node-b")))
	again := r.launch(ctx, t, folder, nodes[1].line)
	defer again.end(t)
	again.listening(t)
	for _, n := range []*process{nodes[0], again, nodes[2]} {
		n.sees(ctx, t, 3)
	}
	caughtUp(ctx, t, "nats://"+elsewhere("127.0.0.1:4223"))
	require.NoError(t, nodes[0].cmd.Process.Kill())
	r.runWithin(ctx, t, folder, elsewhere(`go run ./examples/appclient nats://127.0.0.1:4221,nats://127.0.0.1:4222,nats://127.0.0.1:4223
#> seq 1, there already: true, events: 1
#> answered by …
`))
}

// cluster starts the nodes, all before any of them is waited for, and waits until each sees all of them.
func (r runner) cluster(ctx context.Context, t *testing.T, folder, text string) (nodes []*process) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\\\n", "")), "\n") {
		n := r.launch(ctx, t, folder, line)
		t.Cleanup(func() { n.end(t) })
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.listening(t)
	}
	for _, n := range nodes {
		n.sees(ctx, t, len(nodes))
	}
	return nodes
}

// caughtUp waits until every replica of leases and copies is current: what `nats stream report` shows.
func caughtUp(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	conn, err := nats.Connect(url)
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	current := func(name string) bool {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return false // no leader, for a moment
		}
		cluster := stream.CachedInfo().Cluster
		return cluster != nil && cluster.Leader != "" && len(cluster.Replicas) == 2 &&
			!slices.ContainsFunc(cluster.Replicas, func(r *jetstream.PeerInfo) bool { return !r.Current || r.Offline })
	}
	for !current("KV_leasehold-leases") || !current("leasehold-leasehold-objects") {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the replicas are not current: %v", ctx.Err())
		}
	}
}

// end kills a node of a cluster that has lost another one: when the next one ends, the third cannot hand off any more.
func (p *process) end(t *testing.T) {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it may have been waited for before
	if t.Failed() {
		t.Logf("%s\n%s", p.line, p.errs)
	}
}

// sees waits until a node sees so many members.
func (p *process) sees(ctx context.Context, t *testing.T, count int) {
	t.Helper()
	for p.members(ctx, t) != count {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s does not see %d members: %v", p.address, count, ctx.Err())
		}
	}
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
	mine := strconv.Itoa(os.Getuid())
	require.ErrorContains(t, pkill([]string{"-9", "-u", mine, "-f", "node-name"}), "matches 2")
	require.ErrorContains(t, pkill([]string{"-9", "-u", mine, "-f", "node-name c "}), "matches 0")
	require.ErrorContains(t, pkill([]string{"-9", "-f", "node-name a "}), "is not known", "everybody's processes")
	require.Error(t, pkill([]string{"-9", "-u", mine, "-f", "("}))
}
