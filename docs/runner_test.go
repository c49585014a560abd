package docs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runner runs snippets. Each shell snippet gets an empty working folder. `go run PKG` runs the package
// there, from a program that was built once, instead of in the repository, where its files would stay.
type runner struct {
	repo string // absolute
	bin  string // built programs
}

// programs are the packages that documents run.
var programs = regexp.MustCompile(`go run (\./\S+)`)

// built is the folder of the programs, made by TestMain.
var built = sync.OnceValues(func() (runner, error) {
	repo, err := filepath.Abs(root)
	if err != nil {
		return runner{}, err
	}
	r := runner{repo: repo, bin: filepath.Join(binFolder, "bin") + "/"}
	files, err := documents()
	if err != nil {
		return r, err
	}
	args := []string{"build", "-o", r.bin}
	for _, file := range append(files, "Makefile") {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return r, err
		}
		for _, m := range programs.FindAllStringSubmatch(strings.ReplaceAll(string(text), "$(GO)", "go"), -1) {
			if m[1] != "./drill" && !slices.Contains(args, m[1]) {
				args = append(args, m[1])
			}
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = repo
	if out, err := cmd.CombinedOutput(); err != nil {
		return r, fmt.Errorf("%w: %s", err, out)
	}
	return r, nil
})

// binFolder is a temporary folder.
var binFolder string

func newRunner(t *testing.T) runner {
	t.Helper()
	r, err := built()
	require.NoError(t, err)
	return r
}

// prelude is what stands before every snippet.
const prelude = `set -e
go() {
  if [ "$1" != run ]; then command go "$@"; return; fi
  program="$BIN$(basename "$2")"; shift 2
  $EXEC "$program" "$@"
}
`

func (r runner) command(ctx context.Context, folder, script string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", prelude+script)
	cmd.WaitDelay = 10 * time.Second // what the shell started may have its output
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "BIN="+r.bin, "LEASEHOLD_LISTEN=127.0.0.1:0", "LEASEHOLD_SHUTDOWN_LINGER=1ms")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

func (r runner) shell(t *testing.T, s snippet) {
	switch {
	case s.marker == "test: upgrading a node":
		require.Equal(t, "docs/operations.md", s.file, "cmd/node runs that of operations.md")
	case s.marker == terminalsMarker, s.marker == fourthMarker:
		require.Equal(t, "README.md", s.file, "TestThreeTerminals runs those of the README")
	case strings.HasPrefix(s.marker, "test: long running"):
		r.longRunning(t, strings.Split(strings.TrimSpace(s.text), "\n"))
	case strings.HasPrefix(s.marker, "test: the first is started"):
		lines := strings.Split(strings.TrimSpace(s.text), "\n")
		require.Len(t, lines, 2)
		r.longRunning(t, []string{r.recipe(t, lines[0])})
		r.recipe(t, lines[1])
	case strings.HasPrefix(s.marker, "test: with a fresh node"):
		for _, client := range curls(t) {
			folder := t.TempDir()
			node := r.start(t, folder, "go run ./cmd/node run")
			r.run(t, folder, strings.ReplaceAll(s.text, "http://127.0.0.1:7070", node.address), "PATH="+client+":"+os.Getenv("PATH"))
			node.stop(t)
		}
	case strings.HasPrefix(s.marker, "test: with a node that has served "):
		folder := t.TempDir()
		node := r.start(t, folder, "go run ./cmd/node run")
		tenant := node.address + "/v1/orgs/" + strings.Replace(strings.TrimPrefix(s.marker, "test: with a node that has served "), "/", "/tenants/", 1)
		post(t, tenant+"/events", `{"kind":"a"}`)
		post(t, tenant+"/snapshot", `{}`)
		post(t, tenant+"/events", `{"kind":"b"}`)
		r.run(t, folder, s.text)
		node.stop(t)
	default:
		require.Empty(t, s.marker, "what is this marker?")
		r.run(t, t.TempDir(), s.text)
	}
}

// run runs a snippet to its end. Lines that begin with "#> " are what it must print; … stands for
// anything within a line.
func (r runner) run(t *testing.T, folder, script string, env ...string) {
	t.Helper()
	r.runWithin(t.Context(), t, folder, script, env...)
}

func (r runner) runWithin(ctx context.Context, t *testing.T, folder, script string, env ...string) {
	t.Helper()
	var want []string
	for line := range strings.Lines(script) {
		if text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "#> "); ok {
			want = append(want, strings.ReplaceAll(regexp.QuoteMeta(text), "…", ".*"))
		}
	}
	var errs bytes.Buffer
	cmd := r.command(ctx, folder, script, env...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s\n%s", out, errs.String())
	if len(want) > 0 {
		require.Regexp(t, `\A`+strings.Join(want, "\n")+`\n\z`, string(out))
	}
}

// recipe returns what make would run for "make TARGET".
func (r runner) recipe(t *testing.T, line string) string {
	t.Helper()
	words := strings.Fields(line)
	require.Equal(t, "make", words[0])
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	// Its last line: what comes before only tells.
	m := regexp.MustCompile(`(?m)^` + words[1] + `:.*\n(?:\t@.*\n)*\t(.*)$`).FindStringSubmatch(string(makefile))
	require.NotNil(t, m, "the Makefile has no target %s", words[1])
	return strings.ReplaceAll(m[1], "$(GO)", "go")
}

// longRunning starts every line, waits until each listens, and ends them with SIGTERM.
func (r runner) longRunning(t *testing.T, lines []string) {
	t.Helper()
	folder := t.TempDir()
	var nodes []*process
	for _, line := range lines {
		// Another process may have the port of the example.
		nodes = append(nodes, r.start(t, folder, regexp.MustCompile(`--listen \S+`).ReplaceAllString(line, "")))
	}
	for _, n := range nodes {
		n.stop(t)
	}
}

// process is a node that was started by a snippet.
type process struct {
	line    string
	cmd     *exec.Cmd
	out     io.Reader
	address string
	errs    *bytes.Buffer
}

// start starts a node and waits until it listens.
func (r runner) start(t *testing.T, folder, line string) *process {
	t.Helper()
	p := r.launch(t.Context(), t, folder, line)
	p.listening(t)
	return p
}

// launch starts a node and waits for nothing. It ends with ctx, if not before.
func (r runner) launch(ctx context.Context, t *testing.T, folder, line string) *process {
	t.Helper()
	p := &process{line: line, cmd: r.command(ctx, folder, line, "EXEC=exec"), errs: &bytes.Buffer{}}
	p.cmd.Stderr = p.errs
	var err error
	p.out, err = p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	return p
}

func (p *process) listening(t *testing.T) {
	t.Helper()
	said, err := bufio.NewReader(p.out).ReadString('\n')
	if err != nil {
		_ = p.cmd.Wait()
		require.NoError(t, err, "%s: %s", p.line, p.errs)
	}
	var ok bool
	p.address, ok = strings.CutPrefix(strings.TrimSpace(said), "listening ")
	require.True(t, ok, said)
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.cmd.Wait(), "%s", p.errs)
}

func post(t *testing.T, url, body string) []byte {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Less(t, resp.StatusCode, 300, "%s", answer)
	return answer
}

// yaml gives a configuration file to `node config`.
func (r runner) yaml(t *testing.T, s snippet) {
	require.Equal(t, "test: a configuration file that `node config` must accept", s.marker)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "node.yaml"), []byte(s.text), 0o600))
	r.run(t, folder, "go run ./cmd/node config --config node.yaml")
}

// golang compares a whole program with its file, or compiles a piece of one.
func (r runner) golang(t *testing.T, s snippet) {
	if file, ok := strings.CutPrefix(s.marker, "test: must be "); ok {
		want, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		require.Equal(t, string(want), s.text)
		return
	}
	require.Equal(t, "test: compiled as the body of a function with ctx and tenant", s.marker)
	program := `package snippet
import (
	"context"
	"errors"
	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)
func _(ctx context.Context, tenant *actors.Tenant) {
` + s.text + "}\n"
	folder := t.TempDir()
	source, overlay := filepath.Join(folder, "snippet.go"), filepath.Join(folder, "overlay.json")
	require.NoError(t, os.WriteFile(source, []byte(program), 0o600))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(r.repo, "docs", "snippet", "snippet.go"): source}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", os.DevNull, "./docs/snippet")
	cmd.Dir = r.repo
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
