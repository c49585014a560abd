package main_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // another process's hold on the lease store
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// H2 at the level of processes: after kill -9 a restarted node waits out its predecessor's lease by
// itself and serves what the last snapshot held, at the next epoch.
func TestRun_ServesAgainAfterKillMinusNine(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	lease := []string{"--snapshot-every=1h", "--ttl=6s", "--margin=1s", "--renew-every=200ms"}
	first := run(t, root, lease...)
	for i := range 5 {
		require.Equal(t, 200, first.post(path(tenantOne)+"/events", fmt.Sprintf(`{"kind":"saved-%d"}`, i)).status)
	}
	require.Equal(t, 200, first.post(path(tenantOne)+"/snapshot", "").status)
	require.Equal(t, 200, first.post(path(tenantOne)+"/events", `{"kind":"tail"}`).status)
	first.kill()

	second := run(t, root, lease...)
	kinds := second.kinds(tenantOne)
	require.Equal(t, []string{"saved-0", "saved-1", "saved-2", "saved-3", "saved-4"}, kinds)
	r := second.post(path(tenantOne)+"/events", `{"kind":"after"}`)
	require.JSONEq(t, `{"epoch":2,"events":[{"seq":6}]}`, string(r.body))
	second.terminate()
}

// writer appends numbered events to one tenant until it is told that the node drains.
type writer struct {
	tenant  string
	acked   []string
	refused []string // codes, or errors of the connection
}

func (w *writer) run(ctx context.Context, p *process) {
	for n := 0; ctx.Err() == nil; n++ {
		kind := fmt.Sprintf("%s-%d", w.tenant[26:], n)
		r := p.do(ctx, http.MethodPost, path(w.tenant)+"/events", `{"kind":"`+kind+`"}`)
		switch {
		case r.err != nil:
			w.refused = append(w.refused, r.err.Error())
			return
		case r.status == http.StatusOK:
			w.acked = append(w.acked, kind)
		default:
			w.refused = append(w.refused, string(r.code()))
			return
		}
	}
}

// I5 over HTTP: SIGTERM under load loses no acknowledged append, and refuses the others with a typed
// error; the exit code is 0, and the next process has everything.
func TestH7_SIGTERMUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := run(t, root)
	const tenants, perTenant = 6, 3
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var writers []*writer
	var group sync.WaitGroup
	for n := range tenants * perTenant {
		w := &writer{tenant: number(n % tenants)}
		writers = append(writers, w)
		group.Go(func() { w.run(ctx, p) })
	}
	until(t, "some load", func() bool {
		r := p.get("/metrics")
		m := regexp.MustCompile(`(?m)^leasehold_requests_total\{code="ok",op="append"\} (\d+)`).FindSubmatch(r.body)
		return m != nil && len(m[1]) >= 3 // a hundred appends
	})
	p.terminate()
	group.Wait()

	again := run(t, root)
	acked := 0
	for n := range tenants {
		have := map[string]int{}
		for _, kind := range again.kinds(number(n)) {
			have[kind]++
		}
		for _, w := range writers {
			if w.tenant != number(n) {
				continue
			}
			for _, kind := range w.acked {
				acked++
				delete(have, kind)
			}
		}
		// What was refused as draining was not done: nothing is left over. (Two writers of a tenant use
		// the same kinds, so that a kind counts once for each.)
		require.Empty(t, have, "events that nobody was told of, tenant %d", n)
	}
	total := 0
	for n := range tenants {
		total += len(again.kinds(number(n)))
	}
	require.Equal(t, acked, total, "acknowledged appends and events in the ledgers")
	require.Greater(t, acked, 100)
	for _, w := range writers {
		require.Equal(t, []string{"draining"}, w.refused)
	}
	t.Logf("%d appends acknowledged, none lost", acked)
	again.terminate()
}

// stuck starts a node whose handoff of one tenant takes long, because another process keeps the lease
// store locked, and sends it SIGTERM.
func stuck(t *testing.T, args ...string) *process {
	t.Helper()
	root := t.TempDir()
	p := run(t, root, append([]string{"--ttl=10m", "--margin=5s", "--renew-every=10s", "--store-timeout=5m"}, args...)...)
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"a"}`).status)
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(root, "leases.db")+"?_txlock=immediate")
	require.NoError(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = tx.Rollback() // the context may have done it
		require.NoError(t, db.Close())
	})
	p.signal(syscall.SIGTERM)
	return p
}

func TestRun_AnswersWhileItDrains(t *testing.T) {
	t.Parallel()
	p := stuck(t, "--shutdown-timeout=10m")
	until(t, "/readyz fails as draining", func() bool { return p.get("/readyz").code() == "draining" })
	// New requests are told, the process is alive, and can be looked at.
	r := p.post(path(number(2))+"/events", `{"kind":"a"}`)
	require.Equal(t, "draining", string(r.code()), "%v", r.err)
	require.Equal(t, 200, p.get("/healthz").status)
	p.signal(syscall.SIGTERM) // the second one hurries nothing: see Q6
	until(t, "the log says so", func() bool { return strings.Contains(p.stderr.String(), "shutting down already") })
	require.Equal(t, 200, p.get("/healthz").status)
	p.kill()
}

// The time for handoffs ends what takes longer: the tenant is named.
func TestRun_AHandoffThatTakesTooLongIsNamed(t *testing.T) {
	t.Parallel()
	p := stuck(t, "--shutdown-timeout=3s")
	require.Equal(t, 1, p.wait())
	require.Contains(t, p.stderr.String(), keyOne)
	require.Contains(t, p.stderr.String(), "not every tenant was handed off")
}

func TestRun_NamesTenantsWhoseHandoffFailed(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := run(t, root, "--snapshot-every=1h", "--shutdown-timeout=5s", "--durable-timeout=200ms")
	for n := range 3 {
		require.Equal(t, 200, p.post(path(number(n))+"/events", `{"kind":"a"}`).status)
	}
	require.Equal(t, 204, p.post(path(number(0))+"/handoff", "").status)
	// The durable store is gone.
	require.NoError(t, os.RemoveAll(filepath.Join(root, "durable")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "durable"), nil, 0o600))
	p.signal(syscall.SIGTERM)
	require.Equal(t, 1, p.wait())
	require.Contains(t, p.stderr.String(), "acme/"+number(1))
	require.Contains(t, p.stderr.String(), "acme/"+number(2))
	require.NotContains(t, lastLine(p.stderr.String()), "acme/"+number(0))
}

func lastLine(s string) string {
	_, last, _ := strings.Cut(s, "\nnode: ")
	return last
}

func TestRun_RefusesToStart(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := run(t, root)
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("not a database. ", 100)), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"address taken":            {[]string{"--listen=" + taken.Addr().String(), "--state-root=" + t.TempDir()}, 1, "address already in use"},
		"state root in use":        {[]string{"--listen=127.0.0.1:0", "--state-root=" + root}, 3, "another node uses this state root"},
		"state root below a file":  {[]string{"--listen=127.0.0.1:0", "--state-root=" + file + "/x"}, 1, "storage"},
		"state root is a file":     {[]string{"--state-root=" + file}, 2, "state_root"},
		"lease store is no store":  {[]string{"--listen=127.0.0.1:0", "--leases=sqlite:" + file, "--state-root=" + t.TempDir()}, 4, "lease store"},
		"no token, not loopback":   {[]string{"--listen=0.0.0.0:0"}, 2, "token_file"},
		"planted":                  {[]string{"--planted=no-seal"}, 2, "unsafe_planted"},
		"unknown planted":          {[]string{"--planted=no-such", "--unsafe-planted"}, 2, "no-such"},
		"unknown scheme":           {[]string{"--leases=redis://h/db"}, 2, `no lease store of the scheme "redis"`},
		"ttl out of range":         {[]string{"--ttl=1ms"}, 2, "ttl"},
		"margin out of range":      {[]string{"--margin=20s"}, 2, "margin"},
		"unknown flag":             {[]string{"--no-such-flag"}, 2, "unknown flag"},
		"not a duration":           {[]string{"--ttl=soon"}, 2, "ttl"},
		"config file that is gone": {[]string{"--config=" + file + ".yaml"}, 2, "config file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := tool(t, append([]string{"run"}, c.args...)...)
			require.Equal(t, c.code, code, stderr)
			require.Contains(t, stderr, c.says)
		})
	}
	p.terminate()
}

func TestRun_TokensOnAnyAddress(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	token := strings.Repeat("k", 32)
	require.NoError(t, os.WriteFile(tokens, []byte("# of the test\n"+token+"\n"), 0o600))
	p := run(t, t.TempDir(), "--token-file="+tokens)
	require.Equal(t, 200, p.get("/healthz").status)
	require.Equal(t, "unauthorized", string(p.get("/v1/tenants").code()))
	require.Equal(t, 200, p.authorized(token, "/v1/tenants"))
	p.terminate()
	require.NotContains(t, p.stderr.String(), token)
}

// Two nodes of one machine share stores, and a handoff moves a tenant from one to the other at once.
func TestRun_TwoNodesShareStores(t *testing.T) {
	t.Parallel()
	shared := t.TempDir()
	stores := []string{"--leases=sqlite:" + filepath.Join(shared, "leases.db"), "--durable=dir:" + filepath.Join(shared, "copies"), "--ttl=30s", "--margin=5s", "--renew-every=2s"}
	a, b := run(t, t.TempDir(), append(stores, "--node-name=a")...), run(t, t.TempDir(), append(stores, "--node-name=b")...)
	require.Equal(t, 200, a.post(path(tenantOne)+"/events", `{"kind":"at-a"}`).status)
	refusal := b.post(path(tenantOne)+"/events", `{"kind":"at-b"}`)
	require.Equal(t, "held", string(refusal.code()))
	require.Contains(t, string(refusal.body), `"owner":"a#`)
	a.terminate()
	begun := time.Now()
	require.JSONEq(t, `{"epoch":2,"events":[{"seq":2}]}`, string(b.post(path(tenantOne)+"/events", `{"kind":"at-b"}`).body))
	require.Less(t, time.Since(begun), 20*time.Second, "the lease of 30 s was not waited out")
	require.Equal(t, []string{"at-a", "at-b"}, b.kinds(tenantOne))
	b.terminate()
}

// A client that sends nothing, or no end of a header, does not stay.
func TestRun_SlowHeadersAreCutOff(t *testing.T) {
	t.Parallel()
	p := run(t, t.TempDir(), "--read-header-timeout=300ms")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
	require.NoError(t, err)
	_, err = conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: local"))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err = conn.Read(make([]byte, 1024))
	for err == nil {
		_, err = conn.Read(make([]byte, 1024))
	}
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the connection was closed, not left open")
	require.NoError(t, conn.Close())
	p.terminate()
}

func TestRun_HugeHeadersAreCutOff(t *testing.T) {
	t.Parallel()
	p := run(t, t.TempDir(), "--max-header=4096")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/healthz", nil)
	require.NoError(t, err)
	r.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, response.StatusCode)
	require.Equal(t, 200, p.get("/healthz").status)
	p.terminate()
}

// One query that holds thousands of large values takes neither the machine's memory nor other tenants' service.
func TestRun_AQueryCannotTakeAllMemory(t *testing.T) {
	t.Parallel()
	p := run(t, t.TempDir(), "--query-memory=100000000")
	bomb := `{"sql":"SELECT ` + strings.Repeat("zeroblob(15000000), ", 1500) + `1"}`
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"x"}`).status)
	r := p.post(path(tenantOne)+"/query", bomb)
	require.Equal(t, messages.CodeTooLarge, r.code(), string(r.body))
	for _, tenant := range []string{tenantOne, number(9)} {
		require.Equal(t, 200, p.post(path(tenant)+"/events", `{"kind":"x"}`).status)
	}
	p.terminate()
}

// silence opens many connections on which nothing is said.
func silence(t *testing.T, p *process) {
	t.Helper()
	for range 300 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() }) // it may have been closed by the other side
	}
	// Whoever has something to say finds a place, on a connection of his own.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 20 {
		r, err := client.Get(p.url + "/healthz")
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, 200, r.StatusCode)
	}
	require.Regexp(t, `leasehold_http_connections_closed_total [1-9]`, string(p.get("/metrics").body))
}

// Q3: neither silent connections nor tenants take the last file descriptors: requests, copies and handoffs go on, and idle tenants make room.
func TestQ3_FewFileDescriptors(t *testing.T) {
	t.Parallel()
	inner := command(t, "run", "--listen=127.0.0.1:0", "--state-root="+t.TempDir(), "--snapshot-every=1h")
	shell := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -n 256 && exec "$0" "$@"`}, inner.Args...)...)
	shell.Env, shell.Dir = inner.Env, inner.Dir
	p := start(t, shell)
	for n := range 100 {
		r := p.post(path(number(n))+"/events", `{"kind":"x"}`)
		require.NoError(t, r.err)
		if r.status != 200 {
			require.Equal(t, messages.CodeOverloaded, r.code(), string(r.body))
		}
	}
	require.Equal(t, 200, p.get("/healthz").status)
	require.Equal(t, 200, p.get(path(number(0))+"/events").status)
	require.Contains(t, p.stderr.String(), "bounds the open tenants")
	silence(t, p)
	require.Equal(t, 200, p.post(path(number(0))+"/snapshot", "").status, "a copy finds descriptors")
	p.terminate()
	require.NotContains(t, p.stderr.String(), "snapshot_failed")
}
