package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/nodetest"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/s3/s3test"
)

// binary is cmd/node, built once.
var binary string

func TestMain(m *testing.M) {
	s3test.Main() // this process may be an S3 server of a test
	folder, err := os.MkdirTemp("", "leasehold-node-test-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(folder, "node")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := errors.Join(goleak.Find(), os.RemoveAll(folder)); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patience bounds every wait for a process.
const patience = 3 * time.Minute

const (
	tenantOne = "t-3129611eac9be1d5994a2b216b06ed27"
	keyOne    = "acme/" + tenantOne
)

// process is a running node.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	stderr *nodetest.Log
	exited chan struct{}
}

// command is the binary in an empty environment, so that no variable of the machine counts.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	cmd.Dir = t.TempDir()
	return cmd
}

// run starts `node run` and waits until it says where it listens.
func run(t *testing.T, root string, args ...string) *process {
	t.Helper()
	return start(t, command(t, append([]string{"run", "--listen=127.0.0.1:0", "--state-root=" + root}, args...)...))
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, stderr: &nodetest.Log{}, exited: make(chan struct{})}
	cmd.Stderr = p.stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make(chan string, 1)
	go func() {
		first, _ := bufio.NewReader(out).ReadString('\n')
		line <- first
		_ = cmd.Wait() // the state says how it ended
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		<-p.exited
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", cmd.Args[1:], p.stderr)
		}
	})
	select {
	case first := <-line:
		url, ok := strings.CutPrefix(strings.TrimSpace(first), "listening ")
		require.True(t, ok, "no address; stderr: %s", p.stderr)
		p.url = url
	case <-time.After(patience):
		t.Fatalf("it does not listen; stderr: %s", p.stderr)
	}
	return p
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// wait returns the exit code; -1 for a process that a signal killed.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("it does not end; stderr: %s", p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	require.Equal(p.t, -1, p.wait())
}

// terminate hands everything off.
func (p *process) terminate() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	require.Equal(p.t, 0, p.wait(), "stderr: %s", p.stderr)
}

// tool runs another command of the binary.
func tool(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return toolWith(t, nil, args...)
}

// toolWith is tool with an environment.
func toolWith(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	whole := command(t, args...)
	cmd := exec.CommandContext(ctx, whole.Path, args...)
	cmd.Env, cmd.Dir = append(whole.Env, env...), whole.Dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// reply is an answer of the API: a status and a body, or the error of a connection.
type reply struct {
	status int
	body   []byte
	err    error
}

func (r reply) code() messages.Code {
	e := &messages.Error{}
	if json.Unmarshal(r.body, e) != nil {
		return ""
	}
	return e.Code
}

func (p *process) do(ctx context.Context, method, path, body string) reply {
	r, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return reply{err: err}
	}
	data, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, data, errors.Join(err, response.Body.Close())}
}

func (p *process) get(path string) reply {
	return p.do(p.t.Context(), http.MethodGet, path, "")
}

func (p *process) post(path, body string) reply {
	return p.do(p.t.Context(), http.MethodPost, path, body)
}

// authorized returns the status of a request with a token.
func (p *process) authorized(token, path string) int {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	require.NoError(p.t, response.Body.Close())
	return response.StatusCode
}

func path(tenant string) string { return "/v1/orgs/acme/tenants/" + tenant }

// number names the n-th tenant of a test.
func number(n int) string { return fmt.Sprintf("t-%032x", n) }

// until asks again and again.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it did not happen: " + what)
		}
	}
}

// kinds returns the kinds of all events of a tenant, in order.
func (p *process) kinds(tenant string) []string {
	p.t.Helper()
	out := []string{}
	for after, more := int64(0), true; more; {
		r := p.get(fmt.Sprintf("%s/events?limit=5000&after=%d", path(tenant), after))
		require.NoError(p.t, r.err)
		require.Equal(p.t, 200, r.status, "%s", r.body)
		var page struct {
			Events []messages.StoredEvent
			More   bool
			Next   int64
		}
		require.NoError(p.t, json.Unmarshal(r.body, &page))
		for _, e := range page.Events {
			out = append(out, e.Kind)
		}
		after, more = page.Next, page.More
	}
	return out
}
