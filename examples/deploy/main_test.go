package deploy_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/examples/deploy/nats/credentials"
)

// repository is where the image is built.
const repository = "../.."

// binary is cmd/node, built once.
var binary string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "leasehold-deploy-test-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(folder, "node")
	build := exec.Command("go", "build", "-o", binary, repository+"/cmd/node")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := errors.Join(goleak.Find(), os.RemoveAll(folder)); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// variables returns the environment variables of `node run`, with the flags that they stand for.
func variables(t *testing.T) map[string]string {
	t.Helper()
	var c struct {
		config.Config `embed:""`
	}
	parser, err := kong.New(&c, kong.DefaultEnvars(config.EnvPrefix))
	require.NoError(t, err)
	known := map[string]string{}
	for _, flag := range parser.Model.Flags {
		for _, name := range flag.Envs {
			known[name] = flag.Name
		}
	}
	require.Equal(t, "state-root", known["LEASEHOLD_STATE_ROOT"], "this is how variables are found")
	return known
}

// requireKnown wants every variable with the prefix to be a setting of the node.
func requireKnown(t *testing.T, environment map[string]string) {
	t.Helper()
	known := variables(t)
	for name := range environment {
		if strings.HasPrefix(name, config.EnvPrefix) {
			require.Contains(t, known, name)
		}
	}
}

// rootFS is what a container sees: each mounted file and folder at its place below a temporary folder.
type rootFS struct {
	t    *testing.T
	root string
}

func newRootFS(t *testing.T) *rootFS {
	r := &rootFS{t: t, root: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(r.root, "data"), 0o700))
	return r
}

// mount puts a file or folder, which must be there, at its place.
func (r *rootFS) mount(source, target string) {
	r.t.Helper()
	source, err := filepath.Abs(source)
	require.NoError(r.t, err)
	_, err = os.Stat(source)
	require.NoError(r.t, err, "what is mounted on %s is not there", target)
	place := filepath.Join(r.root, target)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(place), 0o700))
	require.NoError(r.t, os.Symlink(source, place))
}

// inside turns the absolute paths in a text into those of the temporary folder.
func (r *rootFS) inside(text string) string {
	for _, top := range []string{"/etc/", "/run/", "/data"} {
		text = strings.ReplaceAll(text, top, r.root+top)
	}
	return text
}

// nodeConfig runs `node config` as the container runs `node run`, and returns what is in effect. It fails for every setting that is not
// known or cannot work, and every file that cannot be used.
func (r *rootFS) nodeConfig(workingDir string, environment map[string]string, args ...string) effective {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), binary, append([]string{"config"}, args...)...)
	cmd.Dir = filepath.Join(r.root, workingDir)
	cmd.Env = []string{}
	for name, value := range environment {
		cmd.Env = append(cmd.Env, name+"="+r.inside(value))
	}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	require.NoError(r.t, cmd.Run(), "%s", &stderr)
	var e effective
	require.NoError(r.t, yaml.Unmarshal(out.Bytes(), &e))
	return e
}

// effective is what `node config` prints, as far as it must agree with the rest.
type effective struct {
	NodeName          string        `yaml:"node_name"`
	StateRoot         string        `yaml:"state_root"`
	Leases            string        `yaml:"leases"`
	Durable           string        `yaml:"durable"`
	Listen            string        `yaml:"listen"`
	TokenFile         string        `yaml:"token_file"`
	NATSListen        string        `yaml:"nats_listen"`
	NATSClusterListen string        `yaml:"nats_cluster_listen"`
	NATSRoutes        string        `yaml:"nats_routes"`
	Embedded          bool          `yaml:"nats_embedded"`
	ShutdownTimeout   time.Duration `yaml:"shutdown_timeout"`
	ShutdownLinger    time.Duration `yaml:"shutdown_linger"`
	StartTimeout      time.Duration `yaml:"start_timeout"`
	MaxQueries        int64         `yaml:"max_queries"`
	QueryMemory       int64         `yaml:"query_memory"`
	MaxTransfers      int64         `yaml:"max_transfers"`
	MaxImage          int64         `yaml:"max_image"`
}

// memory is what queries and the images under way may take, in bytes.
func (e effective) memory() int64 { return e.MaxQueries*e.QueryMemory + e.MaxTransfers*e.MaxImage }

// token lets a test into the API.
const token = "0123456789abcdef0123456789abcdef"

// secrets makes the files that the READMEs say to make, in a copy of this folder, and returns the copy.
func secrets(t *testing.T, example string, servers, hosts []string) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(".")))
	plan := credentials.Plan{Servers: servers, Hosts: append(hosts, "localhost", "127.0.0.1"),
		Clients: []string{"node-a", "node-b", "node-c", "app", "billing", "operator"}, Valid: time.Hour}
	home := filepath.Join(folder, example)
	require.NoError(t, errors.Join(plan.Write(filepath.Join(home, "credentials")), os.Mkdir(filepath.Join(home, "secrets"), 0o700),
		os.WriteFile(filepath.Join(home, "secrets", "tokens"), []byte(token+"\n"), 0o600)))
	return home
}
