package deploy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
)

const tenantID = "t-3129611eac9be1d5994a2b216b06ed27"

// The three nodes of compose.yaml, as processes of this machine: with their settings, keys, certificates and the permissions of
// users.conf; only addresses are others. So what users.conf permits is enough for real nodes and a real client, and
// embedded.conf lets them form a cluster.
func TestCompose_EmbeddedRuns(t *testing.T) {
	home := secrets(t, "compose", nodeNames, nil)
	c := readCompose(t, filepath.Join(home, "compose.yaml"))
	ports := freePorts(t, 2*len(nodeNames))
	var routes, servers []string
	for i := range nodeNames {
		routes = append(routes, fmt.Sprintf("127.0.0.1:%d", ports[i]))
		servers = append(servers, fmt.Sprintf("127.0.0.1:%d", ports[len(nodeNames)+i]))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var nodes []*node
	for i, name := range nodeNames { // all, before any is waited for
		s := c.Services[name]
		r := mounts(t, home, c, s)
		environment := imageEnvironment(t)
		for k, v := range s.Environment {
			environment[k] = v
		}
		environment["LEASEHOLD_LISTEN"], environment["LEASEHOLD_NATS_LISTEN"] = "127.0.0.1:0", servers[i]
		environment["LEASEHOLD_NATS_CLUSTER_LISTEN"], environment["LEASEHOLD_NATS_ROUTES"] = routes[i], strings.Join(routes, ",")
		nodes = append(nodes, startNode(t, ctx, r, s.WorkingDir, environment))
	}
	for _, n := range nodes {
		n.listens(t)
	}
	// The API of every node, whoever owns the tenant.
	for i, n := range nodes {
		status, body := n.post(t, ctx, `{"kind":"trip.logged"}`)
		require.Equal(t, http.StatusOK, status, body)
		require.JSONEq(t, fmt.Sprintf(`{"epoch":1,"events":[{"seq":%d}]}`, i+1), body)
	}
	// An app, with its own key and inbox prefix. It finds the same tenant over NATS.
	file := func(name string) string { return filepath.Join(home, "credentials/clients/app", name) }
	app, err := client.Dial(ctx, client.NATSConfig{Cluster: "prod", Config: natsconn.Config{
		URL: "nats://" + servers[1], NKeyFile: file("client.nk"), CAFile: file("ca.pem"), CertFile: file("client.pem"), KeyFile: file("client.key"),
		Options: []natsgo.Option{natsgo.CustomInboxPrefix("_INBOX_app")},
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, app.Close()) }()
	tenant, err := app.Tenant("acme", tenantID)
	require.NoError(t, err)
	done, err := tenant.Append(ctx, messages.Event{Kind: "trip.logged", IdemKey: "trip-4"})
	require.NoError(t, err)
	require.EqualValues(t, 4, done.Seq)

	for _, n := range nodes { // all at once, as compose does: the last embedded server alone has nothing to save into
		require.NoError(t, n.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, n := range nodes {
		require.NoError(t, <-n.exited, "it hands everything off")
	}
}

func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close() // all at the end, so that no port is found twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// node is a process.
type node struct {
	cmd    *exec.Cmd
	url    string
	first  chan string
	exited chan error
	stderr bytes.Buffer // to be read when it has exited
}

func startNode(t *testing.T, ctx context.Context, r *rootFS, workingDir string, environment map[string]string) *node {
	t.Helper()
	n := &node{cmd: exec.CommandContext(ctx, binary, "run"), first: make(chan string, 1), exited: make(chan error, 1)}
	n.cmd.Dir, n.cmd.Env, n.cmd.Stderr = filepath.Join(r.root, workingDir), []string{}, &n.stderr
	for name, value := range environment {
		n.cmd.Env = append(n.cmd.Env, name+"="+r.inside(value))
	}
	out, err := n.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, n.cmd.Start())
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n') // an empty one: it ended
		n.first <- line
		n.exited <- n.cmd.Wait()
		close(n.exited)
	}()
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill() // it may have ended already
		for range n.exited {
		}
		if t.Failed() {
			t.Logf("%s", &n.stderr)
		}
	})
	return n
}

// listens waits until the node says where.
func (n *node) listens(t *testing.T) {
	t.Helper()
	url, ok := strings.CutPrefix(strings.TrimSpace(<-n.first), "listening ")
	require.True(t, ok, "it does not listen")
	n.url = url
}

func (n *node) post(t *testing.T, ctx context.Context, event string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+"/v1/orgs/acme/tenants/"+tenantID+"/events", strings.NewReader(event))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(data)
}
