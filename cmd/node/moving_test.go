package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/nodetest"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// leaseStores are URLs of empty lease stores of every engine that is here, the first and the last embedded.
func leaseStores(t *testing.T) []string {
	folder := t.TempDir()
	out := []string{"sqlite:" + filepath.Join(folder, "first.db")}
	database := func(scheme, user, parameters string, start func(context.Context) (*servers.Server, error)) {
		server, err := start(t.Context())
		if errors.Is(err, servers.ErrNotInstalled) && os.Getenv("CI") == "" {
			t.Logf("%v: left out", err)
			return
		}
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, server.Stop()) })
		require.NoError(t, server.Exec(t.Context(), "", "CREATE DATABASE leases"))
		out = append(out, scheme+"://"+user+"@"+server.Addr()+"/leases"+parameters)
	}
	database("postgres", "postgres", "?sslmode=disable", func(ctx context.Context) (*servers.Server, error) { return servers.PostgreSQL(ctx) })
	nats, err := natsserver.Start(t.Context(), natsserver.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(nats.Shutdown)
	out = append(out, nats.URL()+"?sync=always&cluster=prod")
	database("mysql", "root", "", func(ctx context.Context) (*servers.Server, error) { return servers.MariaDB(ctx) })
	s3 := s3test.Start(t)
	return append(out, "s3://"+s3test.Bucket+"/prod?path_style=true&region="+s3test.Region+"&endpoint="+url.QueryEscape(s3.Endpoint), "sqlite:"+filepath.Join(folder, "last.db"))
}

// procedure is the block of docs/operations.md with a marker.
func procedure(t *testing.T, marker string) string {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	m := regexp.MustCompile(`(?s)<!-- ` + regexp.QuoteMeta(marker) + " -->\n *```sh\n(.*?)\n *```\n").FindSubmatch(text)
	require.NotNil(t, m, "no block %q in docs/operations.md", marker)
	return string(m[1])
}

// Leases go from each engine to another one as docs/operations.md says, with the commands that stand there: no second owner, no write lost,
// no epoch granted twice, and what was forgotten stays so, also where the forget was cut off.
func TestK3_MovingLeasesFromEngineToEngine(t *testing.T) {
	t.Parallel()
	commands := procedure(t, "test: moving leases")
	engines, copies := leaseStores(t), "dir:"+t.TempDir()
	require.GreaterOrEqual(t, len(engines), 4)
	credentials := []string{"AWS_ACCESS_KEY_ID=" + s3test.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s3test.SecretKey}
	move := func(from, to string) (string, int) {
		script := commands
		if !strings.HasPrefix(to, "postgres") && !strings.HasPrefix(to, "mysql") {
			script = script[strings.Index(script, "\n")+1:]
			require.Contains(t, script, "lease reseed")
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", "node() { "+binary+" \"$@\"; }\n"+script)
		cmd.Env = append(credentials, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "OLD="+from, "NEW="+to, "COPIES="+copies)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil {
			require.ErrorAs(t, err, &exit)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	on := func(leases string) engine { return engineOf(t, leases, copies, credentials...) }

	var kinds []string
	epoch := uint64(0)
	gone, kept := number(2), number(3)
	for i, leases := range engines {
		var p *process
		if i == 0 {
			p = on(leases).run("a")
			require.Equal(t, 200, p.post(path(gone)+"/events", `{"kind":"secret"}`).status)
			require.Equal(t, 200, p.post(path(kept)+"/events", `{"kind":"kept","idem_key":"kept-1"}`).status)
			require.Equal(t, 204, p.post(path(gone)+"/forget", "").status)
		} else {
			out, code := move(engines[i-1], leases)
			require.Equal(t, 0, code, "%s → %s: %s", engines[i-1], leases, out)
			require.Contains(t, out, keyOne)
			_, stderr, code := toolWith(t, on(engines[i-1]).env, "run", "--listen=127.0.0.1:0", "--state-root="+t.TempDir())
			require.Equal(t, 2, code, stderr)
			require.Contains(t, stderr, "deployment_mismatch", "a node that starts on the store that was left")
			p = on(leases).run("a")
		}
		kind := "on-" + leases[:strings.Index(leases, ":")]
		r := p.post(path(tenantOne)+"/events", `{"kind":"`+kind+`"}`)
		require.Equal(t, 200, r.status, "%s", r.body)
		var done struct{ Epoch uint64 }
		require.NoError(t, json.Unmarshal(r.body, &done))
		require.Greater(t, done.Epoch, epoch, "an epoch is granted once")
		epoch = done.Epoch
		kinds = append(kinds, kind)
		require.Equal(t, kinds, p.kinds(tenantOne))
		require.Equal(t, messages.CodeUnknownTenant, p.get(path(gone)+"/events").code(), "what was forgotten stays so")
		require.Contains(t, string(p.post(path(kept)+"/events", `{"kind":"kept","idem_key":"kept-1"}`).body), `"duplicate":true`)
		if i+1 < len(engines) {
			out, code := move(leases, engines[i+1])
			require.Equal(t, 3, code, "while a node serves: %s", out)
			require.Contains(t, out, "held")
			require.Equal(t, 200, p.get("/readyz").status, "nothing was done")
		}
		p.terminate()
	}
	t.Logf("moved %d times: epochs up to %d", len(engines)-1, epoch)
}

// Two nodes on one pair of stores are upgraded one after the other with the commands of docs/operations.md; no write is lost, and each write
// that is repeated with its key is there once.
func TestH1_UpgradingNodeByNode(t *testing.T) {
	t.Parallel()
	commands := procedure(t, "test: upgrading a node")
	folder := t.TempDir()
	address := func() string {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		return l.Addr().String()
	}
	type node struct {
		name, home, url string
		pid             int
		ended           chan error // of the shell that waits for the new one
	}
	var nodes []*node
	for _, name := range []string{"a", "b"} {
		n := &node{name: name, home: t.TempDir()}
		listen := address() // its own also after the upgrade
		settings := fmt.Sprintf("node_name: %s\nstate_root: %s\nleases: sqlite:%s/leases.db\ndurable: dir:%s/copies\nlisten: %s\nsnapshot_every: 1h\nshutdown_linger: 1ms\n",
			name, filepath.Join(n.home, "state"), folder, folder, listen)
		require.NoError(t, os.WriteFile(filepath.Join(n.home, "node.yaml"), []byte(settings), 0o600))
		cmd := command(t, "run", "--config=node.yaml")
		cmd.Dir = n.home
		p := start(t, cmd)
		n.url, n.pid = p.url, p.cmd.Process.Pid
		nodes = append(nodes, n)
	}
	post := func(n *node, i int) reply {
		p := &process{t: t, url: n.url}
		return p.post(path(number(i))+"/events", fmt.Sprintf(`{"kind":"trip","idem_key":"trip-%d"}`, i))
	}
	const tenants = 6
	for i := range tenants {
		require.Equal(t, 200, post(nodes[i%2], i).status)
	}
	for _, n := range nodes {
		// The shell stays, so that the new node has somebody who waits for it.
		shell := exec.CommandContext(t.Context(), "sh", "-ec", commands+"\necho $! > ready; mv ready pid; wait $!\n")
		shell.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.home, "NEW=" + binary, fmt.Sprintf("OLD_PID=%d", n.pid)}
		shell.Dir = n.home
		log := &nodetest.Log{}
		shell.Stdout, shell.Stderr = log, log
		require.NoError(t, shell.Start())
		n.pid, n.ended = 0, make(chan error, 1)
		go func() { n.ended <- shell.Wait() }()
		t.Cleanup(func() {
			if t.Failed() && n.pid > 0 {
				_ = syscall.Kill(n.pid, syscall.SIGKILL)
				t.Logf("node %s: %s", n.name, log)
			}
		})
		until(t, "the new node is ready", func() bool {
			select {
			case err := <-n.ended:
				t.Fatalf("%v: %s", err, log)
			default:
			}
			text, _ := os.ReadFile(filepath.Join(n.home, "pid"))
			n.pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return n.pid > 0
		})
	}
	for i := range tenants {
		r := post(nodes[(i+1)%2], i)
		require.JSONEq(t, `{"epoch":2,"events":[{"seq":1,"duplicate":true}]}`, string(r.body))
	}
	for _, n := range nodes {
		require.NoError(t, syscall.Kill(n.pid, syscall.SIGTERM))
		require.NoError(t, <-n.ended)
	}
}
