package natsserver_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

func free(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().(*net.TCPAddr).Port
}

func addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// members are three configurations of one cluster.
func members(t *testing.T) []natsserver.Config {
	t.Helper()
	cfgs := make([]natsserver.Config, 3)
	var routes []string
	for i := range cfgs {
		cfgs[i] = natsserver.Config{Dir: t.TempDir(), Name: "m" + strconv.Itoa(i), Port: free(t), ClusterName: "c", ClusterPort: free(t)}
		routes = append(routes, addr(cfgs[i].ClusterPort))
	}
	for i := range cfgs {
		cfgs[i].Routes = routes
	}
	return cfgs
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// At its very first start a cluster waits for all; a member that comes back does not wait for one that is gone.
func TestJoin_WaitsForAllOnceAndThenForAMajority(t *testing.T) {
	cfgs := members(t)
	servers := make([]*natsserver.Server, 3)
	start := func(i int) {
		t.Helper()
		var err error
		servers[i], err = natsserver.Start(t.Context(), cfgs[i])
		require.NoError(t, err)
		t.Cleanup(servers[i].Shutdown)
	}
	start(0)
	start(1)
	said := &log{}
	unheard := make(chan error, 1)
	go func() { unheard <- servers[1].Join(within(t, 6*time.Second), nil) }()
	err := servers[0].Join(within(t, 6*time.Second), slog.New(slog.NewTextHandler(said, nil)))
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "2 of 3 members are reachable")
	require.Contains(t, said.String(), "waiting for the NATS cluster")
	require.Contains(t, said.String(), "first_start=true")
	require.ErrorIs(t, <-unheard, messages.ErrUnavailable, "it tells nobody")

	start(2)
	quiet := slog.New(slog.DiscardHandler)
	for _, s := range servers {
		require.NoError(t, s.Join(within(t, time.Minute), quiet))
		require.Equal(t, 3, s.Status().Known)
	}
	leader := 0
	for i, s := range servers {
		if s.NATS().JetStreamIsLeader() {
			leader = i
		}
	}
	dead, back := (leader+1)%3, (leader+2)%3
	servers[dead].Shutdown()
	servers[back].Shutdown()
	start(back)
	require.NoError(t, servers[back].Join(within(t, time.Minute), quiet))
	require.Equal(t, 3, servers[back].Status().Known)
	require.Equal(t, 2, servers[back].Status().Reachable)
}

// A member that leaves hands over first: nobody has to find out that it is gone, which takes 4 s at least.
func TestLeave_HandsOverWhatItLeads(t *testing.T) {
	ctx := within(t, 5*time.Minute)
	c, leader, took := leave(ctx, t)
	// A machine that stands still makes it late once. What is late every time is a fault.
	for round := 1; took >= 4*time.Second; round++ {
		require.Less(t, round, 4, "it took %v", took)
		c, leader, took = leave(ctx, t)
	}

	// The last but one, without a majority that could take over, does not wait for ever; nor does one that is alone.
	next := (leader + 1) % 3
	c.Servers[next].Leave(ctx)
	c.Servers[(leader+2)%3].Leave(ctx)
	c.Servers[next].Leave(ctx) // twice is fine
	alone, err := natsserver.Start(ctx, natsserver.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	alone.Leave(ctx)
	require.False(t, alone.NATS().Running())
}

// leave makes the leader of a new cluster leave, and returns how long it took until all of its streams were served by others.
func leave(ctx context.Context, t *testing.T) (c *natsserver.Cluster, leader int, took time.Duration) {
	t.Helper()
	c, err := natsserver.StartCluster(ctx, t.TempDir(), 3)
	require.NoError(t, err)
	t.Cleanup(c.Shutdown)
	for i, s := range c.Servers {
		if s.NATS().JetStreamIsLeader() {
			leader = i
		}
	}
	nc, err := nats.Connect(c.Servers[(leader+1)%3].URL())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	streams := []string{"s0", "s1", "s2", "s3", "s4", "s5"} // of which it leads some
	for _, s := range streams {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: s, Replicas: 3})
		require.NoError(t, err)
	}
	begun := time.Now()
	c.Servers[leader].Leave(ctx)
	require.False(t, c.Servers[leader].NATS().Running())
	for _, s := range streams {
		// A try that got lost with the old leader is made again.
		for {
			if _, err = js.Publish(ctx, s, nil, jetstream.WithRetryAttempts(0)); err == nil {
				break
			}
			require.NoError(t, ctx.Err())
		}
		require.NotEqual(t, leader, c.Leader(s))
	}
	return c, leader, time.Since(begun)
}
