package nats_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

// serverEnv makes this test binary a NATS server in a process of its own, which can be killed and frozen; its value
// is the Config.
const serverEnv = "LEASEHOLD_NATS_TEST_SERVER"

// serveAlone runs such a server until its parent goes away, and ends the process.
func serveAlone() {
	text, ok := os.LookupEnv(serverEnv)
	if !ok {
		return
	}
	var cfg natsserver.Config
	err := json.Unmarshal([]byte(text), &cfg)
	if err == nil {
		var s *natsserver.Server
		if s, err = natsserver.Start(context.Background(), cfg); err == nil {
			fmt.Println("ready")
			_, _ = io.Copy(io.Discard, os.Stdin)
			s.Shutdown()
			os.Exit(0)
		}
	}
	fmt.Fprintln(os.Stderr, "server:", err)
	os.Exit(1)
}

// processes is a cluster of three servers, each a process.
type processes struct {
	t    *testing.T
	cfgs []natsserver.Config
	cmds []*exec.Cmd
}

func startProcesses(t *testing.T) *processes {
	t.Helper()
	p := &processes{t: t, cmds: make([]*exec.Cmd, 3)}
	var ports []int
	for range 6 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	dir := t.TempDir()
	var routes []string
	for i := range 3 {
		routes = append(routes, fmt.Sprintf("127.0.0.1:%d", ports[i]))
	}
	for i := range 3 {
		name := fmt.Sprintf("p%d", i+1)
		p.cfgs = append(p.cfgs, natsserver.Config{Dir: filepath.Join(dir, name), Name: name, Port: ports[3+i], ClusterName: "processes",
			ClusterPort: ports[i], Routes: routes})
	}
	return p
}

// start starts server i; ready waits for a line that says that it listens.
func (p *processes) start(i int) (ready func()) {
	p.t.Helper()
	text, err := json.Marshal(p.cfgs[i])
	require.NoError(p.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(p.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, cmd.Start())
	p.cmds[i] = cmd
	p.t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill() // one that is frozen, or was killed before
		_ = cmd.Wait()
	})
	return func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(p.t, err)
		require.Equal(p.t, "ready\n", line)
	}
}

func (p *processes) signal(i int, s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmds[i].Process.Signal(s))
}

func (p *processes) url(i int) string { return fmt.Sprintf("nats://127.0.0.1:%d", p.cfgs[i].Port) }

// urls returns the addresses of all servers but some.
func (p *processes) urls(but ...int) string {
	var urls []string
next:
	for i := range p.cfgs {
		for _, b := range but {
			if i == b {
				continue next
			}
		}
		urls = append(urls, p.url(i))
	}
	return strings.Join(urls, ",")
}

// leader asks until a stream has a leader that the servers agree on, and returns its number.
func (p *processes) leader(nc *natsgo.Conn, stream string) int {
	p.t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(p.t, err)
	found := -1
	require.Eventually(p.t, func() bool {
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
		defer cancel()
		s, err := js.Stream(ctx, stream)
		if err != nil || s.CachedInfo().Cluster == nil {
			return false
		}
		for i, cfg := range p.cfgs {
			if cfg.Name == s.CachedInfo().Cluster.Leader {
				found = i
				return true
			}
		}
		return false
	}, 30*time.Second, 20*time.Millisecond)
	return found
}
