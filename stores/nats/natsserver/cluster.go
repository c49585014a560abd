package natsserver

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/leasehold/leasehold/messages"
)

// Cluster is a number of servers in this process: for tests. Its methods are not safe for concurrent use.
type Cluster struct {
	Servers []*Server
	configs []Config
}

// StartCluster starts n servers on the loopback interface, each with a folder of its own below dir, and
// waits until all of them answer and JetStream has a leader. The errors are those of Start and Ready.
func StartCluster(ctx context.Context, dir string, n int) (*Cluster, error) {
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Servers: make([]*Server, n), configs: make([]Config, n)}
	routes := make([]string, n)
	for i := range routes {
		routes[i] = fmt.Sprintf("127.0.0.1:%d", ports[i])
	}
	for i := range c.configs {
		name := fmt.Sprintf("n%d", i+1)
		c.configs[i] = Config{Dir: filepath.Join(dir, name), Name: name, Port: ports[n+i], ClusterName: "leasehold",
			ClusterPort: ports[i], Routes: routes}
	}
	// All first, then wait for each: one alone never becomes ready.
	for i := range c.Servers {
		if err := c.Start(ctx, i); err != nil {
			c.Shutdown()
			return nil, err
		}
	}
	err = c.Ready(ctx)
	if err == nil {
		// A member that dies before the others know each other leaves a cluster that cannot elect.
		err = poll(ctx, often, "the members do not know each other", c.complete)
	}
	if err != nil {
		c.Shutdown()
		return nil, err
	}
	return c, nil
}

// complete reports whether the leader counts every member, and all are up to date.
func (c *Cluster) complete() bool {
	counted := false
	for _, s := range c.Servers {
		if !s.ns.JetStreamIsCurrent() {
			return false
		}
		counted = counted || len(s.ns.JetStreamClusterPeers()) == len(c.Servers)
	}
	return counted
}

// freePorts finds ports that nobody listens on. Somebody may take one before it is used: then Start fails.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, &messages.Error{Code: messages.CodeUnavailable, Message: "no free port", Err: err}
		}
		defer l.Close() // all at the end, so that no port is found twice
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// Start starts server i, at first or after a Stop, on its folder and ports.
func (c *Cluster) Start(ctx context.Context, i int) (err error) {
	c.Servers[i], err = Start(ctx, c.configs[i])
	return err
}

// Stop stops server i.
func (c *Cluster) Stop(i int) { c.Servers[i].Shutdown() }

// Ready waits until every running server is up to date and JetStream has a leader.
func (c *Cluster) Ready(ctx context.Context) error {
	for _, s := range c.Servers {
		if s.ns.Running() {
			if err := s.Ready(ctx); err != nil {
				return err
			}
		}
	}
	return poll(ctx, often, "JetStream has no leader", func() bool {
		for _, s := range c.Servers {
			if s.ns.Running() && s.ns.JetStreamIsLeader() {
				return true
			}
		}
		return false
	})
}

// Leader returns the number of the server that leads a stream, or -1 while nobody does.
func (c *Cluster) Leader(stream string) int {
	for i, s := range c.Servers {
		if s.ns.Running() && s.ns.JetStreamIsStreamLeader("$G", stream) {
			return i
		}
	}
	return -1
}

// StepDown makes the leader of a stream hand over, and reports whether there was one.
func (c *Cluster) StepDown(stream string) bool {
	i := c.Leader(stream)
	return i >= 0 && c.Servers[i].ns.JetStreamStepdownStream("$G", stream) == nil
}

// URL returns the addresses of all servers, joined by commas, as nats.Connect takes them.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.configs))
	for i, cfg := range c.configs {
		urls[i] = fmt.Sprintf("nats://127.0.0.1:%d", cfg.Port)
	}
	return strings.Join(urls, ",")
}

// Shutdown stops all servers, together.
func (c *Cluster) Shutdown() {
	done := make(chan struct{})
	n := 0
	for _, s := range c.Servers {
		if s != nil {
			n++
			go func() { s.Shutdown(); done <- struct{}{} }()
		}
	}
	for range n {
		<-done
	}
}
