package deploy_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// composeFile has what our Compose files use of the specification, and no more: what is misspelled, or new, is refused.
type composeFile struct {
	Name     string                    `yaml:"name"`
	Services map[string]composeService `yaml:"services"`
	Secrets  map[string]composeSource  `yaml:"secrets"`
	Configs  map[string]composeSource  `yaml:"configs"`
	Volumes  map[string]struct{}       `yaml:"volumes"`
	// The templates that services are made of. What is in them is checked in the services.
	Environment any `yaml:"x-environment"`
	Node        any `yaml:"x-node"`
	NATS        any `yaml:"x-nats"`
}

type composeSource struct {
	File string `yaml:"file"`
}

type composeService struct {
	Image string `yaml:"image"`
	Build struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
	} `yaml:"build"`
	Command         []string          `yaml:"command"`
	WorkingDir      string            `yaml:"working_dir"`
	User            string            `yaml:"user"`
	Hostname        string            `yaml:"hostname"`
	Restart         string            `yaml:"restart"`
	StopGracePeriod time.Duration     `yaml:"stop_grace_period"`
	ReadOnly        bool              `yaml:"read_only"`
	CapDrop         []string          `yaml:"cap_drop"`
	SecurityOpt     []string          `yaml:"security_opt"`
	Tmpfs           []string          `yaml:"tmpfs"`
	MemLimit        string            `yaml:"mem_limit"`
	Ulimits         map[string]int    `yaml:"ulimits"`
	Environment     map[string]string `yaml:"environment"`
	Ports           []string          `yaml:"ports"`
	Volumes         []string          `yaml:"volumes"`
	Secrets         []string          `yaml:"secrets"`
	Healthcheck     struct {
		Test        []string      `yaml:"test"`
		Interval    time.Duration `yaml:"interval"`
		Timeout     time.Duration `yaml:"timeout"`
		Retries     int           `yaml:"retries"`
		StartPeriod time.Duration `yaml:"start_period"`
	} `yaml:"healthcheck"`
	Configs []struct {
		Source string `yaml:"source"`
		Target string `yaml:"target"`
	} `yaml:"configs"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
}

func readCompose(t *testing.T, file string) composeFile {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var c composeFile
	require.NoError(t, yaml.UnmarshalWithOptions(text, &c, yaml.Strict()))
	return c
}

var nodeNames = []string{"a", "b", "c"}

func TestCompose_Embedded(t *testing.T) {
	home := secrets(t, "compose", nodeNames, nil)
	c := readCompose(t, filepath.Join(home, "compose.yaml"))
	require.Len(t, c.Services, len(nodeNames))
	for _, name := range nodeNames {
		s := c.Services[name]
		e := checkNode(t, home, c, name)
		require.True(t, e.Embedded)
		require.Equal(t, []string{"a:6222", "b:6222", "c:6222"}, strings.Split(e.NATSRoutes, ","))
		require.Contains(t, strings.Split(e.NATSRoutes, ","), s.Hostname+portOf(t, e.NATSClusterListen), "the others find it there")
		require.Contains(t, published(t, s), strings.TrimPrefix(portOf(t, e.NATSListen), ":"))
		require.Greater(t, s.Healthcheck.StartPeriod, e.StartTimeout)
	}
}

func TestCompose_External(t *testing.T) {
	servers := []string{"nats-1", "nats-2", "nats-3"}
	home := secrets(t, "compose", servers, nil)
	c := readCompose(t, filepath.Join(home, "compose.external.yaml"))
	require.Len(t, c.Services, len(nodeNames)+len(servers))
	for _, name := range nodeNames {
		e := checkNode(t, home, c, name)
		require.False(t, e.Embedded)
		u, err := url.Parse(strings.ReplaceAll(e.Leases, ",", "-")) // hosts joined by commas
		require.NoError(t, err)
		require.Equal(t, "nats-1:4222-nats-2:4222-nats-3:4222", u.Host)
		require.Equal(t, "3", u.Query().Get("replicas"))
		for _, server := range servers {
			require.Equal(t, "service_healthy", c.Services[name].DependsOn[server].Condition)
		}
	}
	mod, err := os.ReadFile(repository + "/go.mod")
	require.NoError(t, err)
	tested := regexp.MustCompile(`nats-server/v2 v(\S+)`).FindSubmatch(mod)
	require.NotNil(t, tested)
	for _, name := range servers {
		s := c.Services[name]
		require.Equal(t, "nats:"+string(tested[1])+"-alpine", s.Image, "the version that is tested")
		require.Equal(t, name, s.Environment["NATS_SERVER_NAME"], "the name in its certificate, and in the routes")
		r := mounts(t, home, c, s)
		for _, file := range []string{s.Command[1], "users.conf", "credentials/server.key", "credentials/public.conf"} {
			require.FileExists(t, filepath.Join(r.root, s.WorkingDir, file), "nats-server.conf names it so; it is run in folder nats")
		}
		require.Contains(t, s.Volumes, name+":"+s.WorkingDir+"/data", "store_dir")
		require.Contains(t, s.Healthcheck.Test[len(s.Healthcheck.Test)-1], "127.0.0.1:8222/healthz")
		hardened(t, s)
	}
}

// checkNode checks what all services that are nodes have in common.
func checkNode(t *testing.T, home string, c composeFile, name string) effective {
	t.Helper()
	s, ok := c.Services[name]
	require.True(t, ok, name)
	require.Equal(t, []string{"run"}, s.Command)
	hardened(t, s)
	dockerfile := filepath.Join("compose", s.Build.Context, s.Build.Dockerfile) // of the repository, not of the copy
	require.FileExists(t, dockerfile)
	require.Equal(t, mustAbs(t, repository), mustAbs(t, filepath.Join("compose", s.Build.Context)), "where .dockerignore is")

	environment := imageEnvironment(t)
	for k, v := range s.Environment {
		environment[k] = v
	}
	requireKnown(t, environment)
	r := mounts(t, home, c, s)
	e := r.nodeConfig(s.WorkingDir, environment)
	require.Equal(t, name, e.NodeName)
	require.Equal(t, filepath.Join(r.root, "data"), e.StateRoot)
	require.Contains(t, s.Volumes, name+":/data", "a volume of its own for the state root")
	require.Contains(t, c.Volumes, name)
	require.Equal(t, r.root+"/run/secrets/tokens", e.TokenFile)
	require.Contains(t, e.Leases, "sync=always")
	require.Contains(t, e.Leases, "cluster=prod", "the cluster that users.conf permits")
	require.Contains(t, e.Durable, "cluster=prod")
	require.Greater(t, s.StopGracePeriod, e.ShutdownTimeout, "the handoffs are not cut off")
	require.Contains(t, published(t, s), strings.TrimPrefix(portOf(t, e.Listen), ":"))
	require.Equal(t, []string{"CMD", "/usr/local/bin/node", "health"}, s.Healthcheck.Test, "no shell in the image")
	require.Greater(t, s.Healthcheck.Timeout, 5*time.Second, "the patience of node health")
	limit, err := strconv.ParseInt(strings.TrimSuffix(s.MemLimit, "g"), 10, 64)
	require.NoError(t, err)
	require.Less(t, e.memory(), limit<<30)
	return e
}

// hardened wants what every container here has.
func hardened(t *testing.T, s composeService) {
	t.Helper()
	require.True(t, s.ReadOnly)
	require.Equal(t, []string{"ALL"}, s.CapDrop)
	require.Equal(t, []string{"no-new-privileges:true"}, s.SecurityOpt)
	require.Equal(t, "unless-stopped", s.Restart)
	require.NotZero(t, s.StopGracePeriod)
	require.NotEmpty(t, s.Healthcheck.Test)
	require.NotContains(t, s.Image, ":latest")
	require.Contains(t, s.Image, ":")
}

// mounts lays out what a service's container sees. Every source must be there.
func mounts(t *testing.T, home string, c composeFile, s composeService) *rootFS {
	t.Helper()
	r := newRootFS(t)
	for _, name := range s.Secrets {
		require.Contains(t, c.Secrets, name)
		r.mount(filepath.Join(home, c.Secrets[name].File), "/run/secrets/"+name)
	}
	for _, use := range s.Configs {
		require.Contains(t, c.Configs, use.Source)
		r.mount(filepath.Join(home, c.Configs[use.Source].File), use.Target)
	}
	for _, v := range s.Volumes {
		parts := strings.Split(v, ":")
		if !strings.HasPrefix(parts[0], ".") {
			require.Contains(t, c.Volumes, parts[0])
			continue
		}
		require.Len(t, parts, 3, v)
		require.Equal(t, "ro", parts[2], v)
		r.mount(filepath.Join(home, parts[0]), parts[1])
	}
	return r
}

// published returns the ports of the container that the host can reach, and wants no other machine to.
func published(t *testing.T, s composeService) (ports []string) {
	t.Helper()
	for _, p := range s.Ports {
		parts := strings.Split(p, ":")
		require.Len(t, parts, 3, p)
		require.Equal(t, "127.0.0.1", parts[0], "published on this machine only")
		ports = append(ports, parts[2])
	}
	return ports
}

// portOf returns ":PORT".
func portOf(t *testing.T, address string) string {
	t.Helper()
	i := strings.LastIndex(address, ":")
	require.Positive(t, i, address)
	return address[i:]
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}
