package main_test

import (
	"context"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/nodetest"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
	"github.com/leasehold/leasehold/stores/mysql"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
	"github.com/leasehold/leasehold/stores/postgres"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// password is part of every store's URL or file here, and must never be printed.
const password = "hunter2-of-the-engine"

// engine is how processes reach stores on a server: by the environment, as where URLs hold secrets.
type engine struct {
	t   *testing.T
	env []string
}

func engineOf(t *testing.T, leases, durable string, env ...string) engine {
	return engine{t, append(env, "LEASEHOLD_LEASES="+leases, "LEASEHOLD_DURABLE="+durable)}
}

func (e engine) run(name string, args ...string) *process {
	e.t.Helper()
	args = append([]string{"run", "--listen=127.0.0.1:0", "--state-root=" + e.t.TempDir(), "--node-name=" + name,
		"--ttl=2s", "--margin=500ms", "--renew-every=300ms", "--store-timeout=1s", "--snapshot-every=1h"}, args...)
	cmd := command(e.t, args...)
	cmd.Env = append(cmd.Env, e.env...)
	return start(e.t, cmd)
}

// tool runs a command that prints a JSON document, or fails with one.
func (e engine) tool(exit int, document any, args ...string) {
	e.t.Helper()
	stdout, stderr, code := toolWith(e.t, e.env, append(args, "--json")...)
	require.Equal(e.t, exit, code, "%s%s", stdout, stderr)
	require.NotContains(e.t, stdout+stderr, password)
	text := stdout
	if exit != 0 {
		text = stderr
	}
	require.NoError(e.t, json.Unmarshal([]byte(text), document), text)
}

// shared goes through the life of a tenant on two nodes that share nothing but an engine: served by one,
// handed to the other with its data, taken over after kill -9, looked at, restored to a file, forgotten.
func (e engine) shared() {
	t := e.t
	t.Helper()
	a, b := e.run("a"), e.run("b")
	for _, p := range []*process{a, b} {
		require.Equal(t, 200, p.get("/readyz").status)
	}
	require.Equal(t, 200, a.post(path(tenantOne)+"/events", `{"kind":"at-a"}`).status)
	refusal := b.post(path(tenantOne)+"/events", `{"kind":"at-b"}`)
	require.Equal(t, messages.CodeHeld, refusal.code(), "%s", refusal.body)
	require.Contains(t, string(refusal.body), `"owner":"a#`)

	require.Equal(t, 204, a.post(path(tenantOne)+"/handoff", "").status)
	require.JSONEq(t, `{"epoch":2,"events":[{"seq":2}]}`, string(b.post(path(tenantOne)+"/events", `{"kind":"at-b"}`).body))
	require.Equal(t, []string{"at-a", "at-b"}, b.kinds(tenantOne))

	require.Equal(t, 200, b.post(path(tenantOne)+"/snapshot", "").status)
	require.Equal(t, 200, b.post(path(tenantOne)+"/events", `{"kind":"tail"}`).status)
	b.kill()
	var taken reply
	until(t, "the other node takes over", func() bool {
		taken = a.post(path(tenantOne)+"/events", `{"kind":"again-at-a"}`)
		require.Contains(t, []messages.Code{"", messages.CodeHeld}, taken.code(), "%s", taken.body)
		return taken.status == 200
	})
	require.JSONEq(t, `{"epoch":3,"events":[{"seq":3}]}`, string(taken.body))
	require.Equal(t, []string{"at-a", "at-b", "again-at-a"}, a.kinds(tenantOne))

	var held messages.Error
	e.tool(3, &held, "forget", keyOne)
	require.Equal(t, messages.CodeHeld, held.Code)
	a.terminate()
	for _, p := range []*process{a, b} {
		require.NotContains(t, p.stderr.String(), password)
	}
	e.admin()
}

// admin looks at what shared has left behind, and forgets it.
func (e engine) admin() {
	t := e.t
	t.Helper()
	var all []messages.Lease
	e.tool(0, &all, "lease", "show")
	require.Len(t, all, 1)
	require.Equal(t, keyOne, all[0].Key.String())
	require.EqualValues(t, 3, all[0].Epoch)
	var trail []messages.LeaseEntry
	e.tool(0, &trail, "lease", "history", keyOne)
	var acquired []string
	for _, entry := range trail {
		if entry.Op == messages.OpAcquire {
			acquired = append(acquired, entry.Owner[:2])
		}
	}
	require.Equal(t, []string{"a#", "b#", "a#"}, acquired)
	var report snapshotactor.Report
	e.tool(0, &report, "snapshots", "list", keyOne)
	require.EqualValues(t, 3, report.Newest.Epoch)
	var verified struct {
		Bytes    int64
		Findings []snapshotactor.Finding
	}
	e.tool(0, &verified, "snapshots", "verify", keyOne)
	require.Positive(t, verified.Bytes)
	require.Empty(t, verified.Findings)
	file := filepath.Join(t.TempDir(), "ledger.db")
	var restored struct{ Manifest messages.Manifest }
	e.tool(0, &restored, "restore", keyOne, "--to="+file)
	require.EqualValues(t, 3, restored.Manifest.Events)
	require.FileExists(t, file)

	var forgotten struct{ Floor, Objects int }
	e.tool(0, &forgotten, "forget", keyOne)
	require.Equal(t, 4, forgotten.Floor)
	require.Positive(t, forgotten.Objects)
	var gone messages.Error
	e.tool(1, &gone, "restore", keyOne, "--to="+file+"2")
	require.Equal(t, messages.CodeNotFound, gone.Code)

	out, stderr, code := effective(t, e.env)
	require.Equal(t, 0, code, stderr)
	require.NotContains(t, out, password)
	// What was printed is what was set, but for the secret.
	for _, v := range e.env {
		if leases, ok := strings.CutPrefix(v, "LEASEHOLD_LEASES="); ok {
			u, err := url.Parse(leases)
			require.NoError(t, err)
			require.Contains(t, out, u.Host)
		}
	}
}

func TestH1_H2_TwoNodesShareNATS(t *testing.T) {
	t.Parallel()
	nats, err := natsserver.Start(t.Context(), natsserver.Config{Dir: t.TempDir(), Configure: func(o *server.Options) {
		o.Username, o.Password = "leasehold", password
	}})
	require.NoError(t, err)
	defer nats.Shutdown()
	host := strings.TrimPrefix(nats.URL(), "nats://")
	store := "nats://leasehold:" + password + "@" + host + "?sync=always&cluster=prod"
	engineOf(t, store, store).shared()

	// Without the password nothing starts, and the error says where, without what was tried.
	wrong := engineOf(t, "nats://leasehold:wrong-"+password+"@"+host+"?sync=always", store)
	_, stderr, code := toolWith(t, wrong.env, "run", "--listen=127.0.0.1:0", "--state-root="+t.TempDir())
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stderr, "lease store nats://leasehold:xxxxx@"+host)
	require.NotContains(t, stderr, password)
}

func TestH1_H2_TwoNodesShareS3(t *testing.T) {
	t.Parallel()
	s3 := s3test.Start(t)
	store := "s3://" + s3test.Bucket + "/prod?path_style=true&region=" + s3test.Region + "&endpoint=" + url.QueryEscape(s3.Endpoint)
	engineOf(t, store, store, "AWS_ACCESS_KEY_ID="+s3test.AccessKey, "AWS_SECRET_ACCESS_KEY="+s3test.SecretKey).shared()
}

// The administrator creates the schema, and the nodes work with no more than the documented rights.
func TestH1_H2_TwoNodesShareLeasesInPostgreSQL(t *testing.T) {
	t.Parallel()
	server := servers.ForTest(t, func(ctx context.Context) (*servers.Server, error) { return servers.PostgreSQL(ctx) })
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	require.NoError(t, server.Exec(t.Context(), "", `CREATE DATABASE leases`, `CREATE ROLE leasehold_node LOGIN PASSWORD '`+password+`'`))
	at := "@" + server.Addr() + "/leases?sslmode=disable"
	copies := "dir:" + t.TempDir()
	nodes := engineOf(t, "postgres://leasehold_node:"+password+at, copies)

	stdout, stderr, code := toolWith(t, nodes.env, "run", "--listen=127.0.0.1:0", "--state-root="+t.TempDir())
	require.Equal(t, 1, code, stdout)
	require.Contains(t, stderr, "not_found", "there is no schema yet")
	var done struct{ Leases string }
	for range 2 { // the second time it is there already
		engineOf(t, "postgresql://postgres:"+password+at, copies).tool(0, &done, "migrate")
		require.Equal(t, "postgresql://postgres:xxxxx"+at, done.Leases)
	}
	require.NoError(t, server.Exec(t.Context(), "leases", postgres.Grants("", "leasehold_node")...))
	nodes.shared()
}

// The first node creates the tables, with the account that owns them; the password is in a file.
func TestH1_H2_TwoNodesShareLeasesInMariaDB(t *testing.T) {
	t.Parallel()
	server := servers.ForTest(t, func(ctx context.Context) (*servers.Server, error) { return servers.MariaDB(ctx) })
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	require.NoError(t, server.Exec(t.Context(), "", `CREATE DATABASE leases`, `CREATE USER 'leasehold_node'@'127.0.0.1' IDENTIFIED BY '`+password+`'`))
	copies := "dir:" + t.TempDir()
	owner := engineOf(t, "mysql://root@"+server.Addr()+"/leases", copies).run("owner", "--migrate")
	owner.terminate()
	require.NoError(t, server.Exec(t.Context(), "", mysql.Grants("leases", "leasehold_node", "127.0.0.1")...))
	secret := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(secret, []byte(password+"\n"), 0o600))
	engineOf(t, "mysql://leasehold_node@"+server.Addr()+"/leases?password_file="+url.QueryEscape(secret), copies).shared()
}

// A server that does not answer: the node does not start, and does not hang.
func TestRun_AnEngineThatIsNotThere(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{
		"postgres": "postgres://u:" + password + "@127.0.0.1:1/leases", "mysql": "mysql://u:" + password + "@127.0.0.1:1/leases",
		"nats": "nats://u:" + password + "@127.0.0.1:1?sync=always",
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			e := engineOf(t, store, "dir:"+t.TempDir())
			_, stderr, code := toolWith(t, e.env, "run", "--listen=127.0.0.1:0", "--state-root="+t.TempDir())
			require.Equal(t, 1, code, stderr)
			require.Contains(t, stderr, "unavailable")
			require.Contains(t, stderr, "lease store "+name+"://u:xxxxx@127.0.0.1:1")
			require.NotContains(t, stderr, password)
			var gone messages.Error
			e.tool(1, &gone, "lease", "show")
			require.Equal(t, messages.CodeUnavailable, gone.Code)
			require.Less(t, time.Since(begun), time.Minute)
		})
	}
}

// A server that takes connections and never answers: SIGTERM does not have to wait for it.
func TestRun_SIGTERMWhileAStoreIsOpened(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	cmd := command(t, "run", "--listen=127.0.0.1:0", "--state-root="+t.TempDir(),
		"--leases=s3://bucket?path_style=true&endpoint="+url.QueryEscape("http://"+silent.Addr().String()))
	cmd.Env = append(cmd.Env, "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY="+password)
	stderr := &nodetest.Log{}
	cmd.Stderr = stderr
	require.NoError(t, cmd.Start())
	conn, err := silent.Accept() // it is being opened
	require.NoError(t, err)
	begun := time.Now()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Equal(t, 1, cmd.ProcessState.ExitCode(), stderr)
	require.Contains(t, stderr.String(), "stopped before the node was ready")
	require.NotContains(t, stderr.String(), password)
	require.Less(t, time.Since(begun), 10*time.Second, "a request may take 15 s, and is tried four times")
	require.NoError(t, conn.Close())
}
