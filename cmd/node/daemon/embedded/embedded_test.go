package embedded_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/cmd/node/daemon"
	"github.com/leasehold/leasehold/cmd/node/daemon/embedded"
	"github.com/leasehold/leasehold/cmd/node/storeurl/engines"
	"github.com/leasehold/leasehold/internal/nodetest"
	"github.com/leasehold/leasehold/messages"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(code)
	}))
}

func Example() {
	var c config.Config
	c.Embedded, c.NATS.Listen, c.StateRoot, c.NodeName = true, "0.0.0.0:4222", "data", "node-a"
	// Strangers could come in, so it would not start.
	fmt.Println(messages.CodeOf(embedded.NATS{}.Check(c)))
	c.NATS.Listen = "127.0.0.1:4222"
	fmt.Println(embedded.NATS{}.Check(c))
	// Output:
	// invalid_argument
	// <nil>
}

// patience bounds every wait.
const patience = 90 * time.Second

// free returns an address that nobody listens on. All of a test are asked for at once, so that none comes twice.
func free(t *testing.T, n int) []string {
	t.Helper()
	out := make([]string, n)
	for i := range out {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		out[i] = l.Addr().String()
	}
	return out
}

// node is a daemon in this process.
type node struct {
	t         *testing.T
	url       chan string
	signals   chan os.Signal
	over      chan error
	log       *nodetest.Log
	listening string
}

// launch starts a daemon, and waits for nothing.
func launch(t *testing.T, args ...string) *node {
	t.Helper()
	args = append([]string{"--listen=127.0.0.1:0", "--shutdown-linger=0s", "--shutdown-timeout=10s", "--snapshot-every=1h", "--ttl=3s", "--nats-embedded"}, args...)
	cfg := parse(t, args...)
	stdout, w := io.Pipe()
	n := &node{t: t, url: make(chan string, 1), signals: make(chan os.Signal, 2), over: make(chan error, 1), log: &nodetest.Log{}}
	go func() {
		n.over <- daemon.Run(context.Background(), daemon.Options{
			Config: cfg, Schemes: engines.Schemes(), Cluster: embedded.NATS{}, Stdout: w,
			Log: slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Signals: n.signals,
		})
		_ = w.Close()
	}()
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		n.url <- strings.TrimSpace(strings.TrimPrefix(line, "listening "))
	}()
	t.Cleanup(func() {
		n.signals <- syscall.SIGTERM
		_ = n.wait()
		if t.Failed() {
			t.Log(n.log)
		}
	})
	return n
}

// ready waits until the node answers.
func (n *node) ready() *node {
	n.t.Helper()
	select {
	case n.listening = <-n.url:
		if n.listening == "" {
			n.t.Fatal("it ended: ", n.wait())
		}
	case <-time.After(patience):
		n.t.Fatal("it does not listen", n.log)
	}
	return n
}

// wait returns what Run returned.
func (n *node) wait() error {
	n.t.Helper()
	select {
	case err := <-n.over:
		n.over <- err
		return err
	case <-time.After(patience):
		n.t.Fatal("it does not end", n.log)
		return nil
	}
}

func (n *node) stop() {
	n.t.Helper()
	n.signals <- syscall.SIGTERM
	require.NoError(n.t, n.wait(), "%s", n.log)
}

// post returns the status and the body of an answer.
func (n *node) post(path, body string) (int, string) {
	n.t.Helper()
	r, err := http.Post(n.listening+"/v1/orgs/acme/tenants/"+path, "application/json", strings.NewReader(body))
	require.NoError(n.t, err)
	defer func() { require.NoError(n.t, r.Body.Close()) }()
	text, err := io.ReadAll(r.Body)
	require.NoError(n.t, err)
	return r.StatusCode, string(text)
}

func tenant(n int) string { return fmt.Sprintf("t-%032x", n) }

// One node with a server of its own: nothing else is needed, and everything is there again after a restart,
// with the server's authentication too.
func TestH1_AloneWithItsOwnServer(t *testing.T) {
	root := t.TempDir()
	args := []string{"--state-root=" + root, "--nats-listen=" + free(t, 1)[0], "--node-name=alone",
		"--nats-config=" + file(t, "authorization { user: u, password: hunter2 }\n"), "--nats-params=user=u&password_file=" + file(t, "hunter2\n")}
	n := launch(t, args...).ready()
	status, body := n.post(tenant(1)+"/events", `{"kind":"first"}`)
	require.Equal(t, 200, status, body)
	require.NoFileExists(t, root+"/leases.db")
	require.NoDirExists(t, root+"/durable")
	n.stop()
	require.NotContains(t, n.log.String(), "hunter2")

	n = launch(t, args...).ready()
	status, body = n.post(tenant(1)+"/events", `{"kind":"second"}`)
	require.Equal(t, 200, status, body)
	require.JSONEq(t, `{"epoch":2,"events":[{"seq":2}]}`, body)
	n.stop()

	// Under another name it stays the member that it was.
	n = launch(t, append(args, "--node-name=renamed")...).ready()
	require.Contains(t, n.log.String(), "keeps the name that its folder belongs to")
	n.stop()
}

// cluster returns the flags of three nodes.
func cluster(t *testing.T, more ...string) [][]string {
	t.Helper()
	ports := free(t, 6)
	out := make([][]string, 3)
	for i := range out {
		out[i] = append([]string{"--state-root=" + t.TempDir(), "--node-name=n" + strconv.Itoa(i), "--nats-listen=" + ports[i],
			"--nats-cluster-listen=" + ports[3+i], "--nats-routes=" + strings.Join(ports[3:], ",")}, more...)
	}
	return out
}

// append appends an event with its kind as the idempotency key, again and again until a node has taken it:
// while a member leaves or comes back, a request may be refused.
func (n *node) append(tenant, kind string) (seq int64) {
	n.t.Helper()
	var body string
	var status int
	require.Eventually(n.t, func() bool {
		status, body = n.post(tenant+"/events", fmt.Sprintf(`{"kind":%q,"idem_key":%q}`, kind, kind))
		return status == http.StatusOK
	}, patience, 20*time.Millisecond, "%d %s", status, body)
	var answer struct{ Events []struct{ Seq int64 } }
	require.NoError(n.t, json.Unmarshal([]byte(body), &answer))
	return answer.Events[0].Seq
}

// Three nodes are a cluster, with nothing installed. One of them restarts, and the others serve on; then it
// does so while another one is gone. Nothing acknowledged is missing after any of this.
func TestH1_ThreeNodesAreACluster(t *testing.T) {
	flags := cluster(t)
	nodes := make([]*node, 3)
	for i := range nodes {
		nodes[i] = launch(t, flags[i]...)
	}
	for i, n := range nodes {
		require.EqualValues(t, 1, n.ready().append(tenant(i), "first"))
	}

	nodes[1].stop()
	for i := range nodes {
		require.EqualValues(t, 2, nodes[2*(i%2)].append(tenant(i), "second"))
	}
	nodes[1] = launch(t, flags[1]...).ready()
	require.EqualValues(t, 3, nodes[1].append(tenant(1), "third"))

	nodes[0].stop()
	require.NotContains(t, nodes[0].log.String(), "loses its majority")
	nodes[1].stop()
	require.Contains(t, nodes[1].log.String(), "the cluster loses its majority")
	nodes[1] = launch(t, flags[1]...).ready() // with one of the others: two of three
	for i := range nodes {
		require.EqualValues(t, 2, nodes[1].append(tenant(i), "second"), "it is there already")
		nodes[1].append(tenant(i), "fourth")
	}
	together(nodes[1], nodes[2])
}

// together tells nodes to end at the same time, and waits for them. The last of them may find no majority for what
// it has to write; that is not what is tested here.
func together(nodes ...*node) {
	for _, n := range nodes {
		n.signals <- syscall.SIGTERM
	}
	for _, n := range nodes {
		_ = n.wait()
	}
}

// What cannot start says so, in time and with a code.
func TestRun_AClusterThatDoesNotComeTogether(t *testing.T) {
	flags := cluster(t, "--start-timeout=1s")
	n := launch(t, flags[0]...)
	err := n.wait()
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorContains(t, err, "the embedded NATS server is not ready")
	require.ErrorContains(t, err, "1 of 3 members are reachable")
	require.NoFileExists(t, strings.TrimPrefix(flags[0][0], "--state-root=")+"/node.lock", "the node has not begun")
}

// SIGTERM ends the waiting for members, of which the log tells.
func TestRun_SIGTERMWhileMembersAreAwaited(t *testing.T) {
	n := launch(t, cluster(t, "--start-timeout=1h")[0]...)
	require.Eventually(t, func() bool {
		return strings.Contains(n.log.String(), `msg="waiting for the NATS cluster" members=3 reachable=1`)
	}, patience, 20*time.Millisecond)
	n.signals <- syscall.SIGTERM
	begun := time.Now()
	err := n.wait()
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorContains(t, err, "stopped before the node was ready")
	require.Less(t, time.Since(begun), time.Minute)
}

// An address that is taken is found out at once.
func TestRun_APortThatIsTaken(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	n := launch(t, "--state-root="+t.TempDir(), "--nats-listen="+l.Addr().String())
	err = n.wait()
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorContains(t, err, "address already in use")
}
