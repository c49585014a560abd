package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

// Config says how a node is a member of a cluster. Node and Conn are needed.
type Config struct {
	// Node is the node that becomes a member. Its lease store and durable store are those of the other
	// members. Whoever started it shuts it down, after Leave and before Close.
	Node *actors.Node
	// Conn is the connection to NATS. Whoever opened it closes it, after Close. It should be made by
	// package natsconn: nothing must be sent long after its caller gave up.
	Conn *natsgo.Conn
	// Cluster names the cluster, [A-Za-z0-9_-]{1,32}: every subject has it; default "leasehold".
	Cluster string

	// HeartbeatEvery is the pause between two heartbeats (default 500 ms); a member that was not heard for
	// DeadAfter (default 4 of them) is not sent requests, until it is heard again. Neither has to do with leases.
	HeartbeatEvery, DeadAfter time.Duration
	// SettleAfter is how long the members must stay the same before tenants are moved to where they
	// belong; default 2 heartbeats. RebalanceEvery is the pause between two looks at this when
	// nothing changes; default 30 s.
	SettleAfter, RebalanceEvery time.Duration
	// MovesPerSecond bounds the tenants that this member hands to others after a join; default 50. A member
	// that leaves does not keep to it.
	MovesPerSecond int
	// MoveParallel bounds the moves of this member that are under way at a time; default 4.
	MoveParallel int
	// MoveTimeout bounds one move, final snapshot included (default 10 s), and how long the next
	// owner keeps requests waiting for it.
	MoveTimeout time.Duration
	// MaxTimeout is the longest that a request from another process may take, whatever it asks for; default 5 min.
	MaxTimeout time.Duration
	// LookupTimeout bounds a look at the lease store for the owner of a tenant; default 200 ms. After it the request is
	// sent to the member that is most likely to be it.
	LookupTimeout time.Duration
	// MaxRequests bounds the requests from other processes that are in flight here, waiting ones included; beyond
	// it they are refused as overloaded at once; default 10,000.
	MaxRequests int

	// Client is how requests that come in on this node are routed (Do, Tenant).
	Client client.Config
	// Registerer takes the metrics; default: a registry of its own.
	Registerer prometheus.Registerer
	// Log takes what happens to the membership; default slog.Default().
	Log *slog.Logger
	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	for v, d := range map[*time.Duration]time.Duration{&c.HeartbeatEvery: 500 * time.Millisecond, &c.RebalanceEvery: 30 * time.Second, &c.MoveTimeout: 10 * time.Second,
		&c.LookupTimeout: 200 * time.Millisecond, &c.MaxTimeout: 5 * time.Minute} {
		if *v == 0 {
			*v = d
		}
	}
	for v, d := range map[*time.Duration]time.Duration{&c.DeadAfter: 4 * c.HeartbeatEvery, &c.SettleAfter: 2 * c.HeartbeatEvery} {
		if *v == 0 {
			*v = d
		}
	}
	for v, d := range map[*int]int{&c.MovesPerSecond: 50, &c.MoveParallel: 4, &c.MaxRequests: 10_000} {
		if *v == 0 {
			*v = d
		}
	}
	if c.Cluster == "" {
		c.Cluster = client.DefaultCluster
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate returns an error with CodeInvalidArgument that names every field out of its range.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf(format, args...)})
	}
	if c.Node == nil || c.Conn == nil {
		fail("a member needs a node and a connection to NATS")
	}
	if _, err := client.NewSubjects(c.Cluster); err != nil {
		errs = append(errs, err)
	}
	for name, d := range map[string]time.Duration{"heartbeat": c.HeartbeatEvery, "settle time": c.SettleAfter,
		"rebalance interval": c.RebalanceEvery, "move timeout": c.MoveTimeout, "lookup timeout": c.LookupTimeout, "longest request": c.MaxTimeout} {
		if d <= 0 {
			fail("%s must be positive, is %v", name, d)
		}
	}
	if c.DeadAfter < 2*c.HeartbeatEvery {
		fail("a member must not be given up before two heartbeats: %v is below twice %v", c.DeadAfter, c.HeartbeatEvery)
	}
	for name, n := range map[string]int{"moves per second": c.MovesPerSecond, "parallel moves": c.MoveParallel, "requests": c.MaxRequests} {
		if n < 1 {
			fail("the bound of %s must be at least 1, is %d", name, n)
		}
	}
	return errors.Join(errs...)
}
