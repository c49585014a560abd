package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/messages"
)

// Cluster is what makes a node one of many: the NATS server inside it, and its membership. Package embedded has the one there is. It is
// an interface so that a daemon without one (nil in Options) links nothing of NATS.
type Cluster interface {
	config.Checker
	// Start starts the server inside the node and waits until it can be relied upon: in a cluster, for the
	// other members. It is called only if c says nats_embedded. The wait ends with ctx, as CodeUnavailable.
	Start(ctx context.Context, c config.Config, log *slog.Logger) (NATSServer, error)
	// Join makes a node a member of the cluster that its NATS servers are for. It is called only if
	// config.NATS.NATSURL names some.
	Join(ctx context.Context, j Joining) (Member, error)
}

// NATSServer is a running server inside the node. It is stopped once, by one of the two.
type NATSServer interface {
	// Leave hands over what the server leads, waiting for that for a bounded time, and stops it.
	Leave(ctx context.Context)
	// Shutdown stops it at once.
	Shutdown()
}

// checker is what Config.Validate takes: a nil interface where there is no Cluster.
func (o Options) checker() config.Checker {
	if o.Cluster == nil {
		return nil
	}
	return o.Cluster
}

// leaveTimeout bounds how long the end of a node may wait for other servers to take over.
const leaveTimeout = 5 * time.Second

// startServer starts the NATS server inside the node, if it is to have one. It is stopped after everything
// that uses it, because it was started before.
func (d *daemon) startServer(ctx context.Context) error {
	c := d.Config
	if !c.Embedded {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.StartTimeout)
	defer cancel()
	begun := d.Now()
	d.Log.Info("starting the embedded NATS server", "listen", c.NATS.Listen, "cluster", c.NATSClusterListen, "members", len(c.RouteList()), "timeout", c.StartTimeout)
	server, err := d.Cluster.Start(ctx, c, d.Log)
	if err != nil {
		e := *messages.AsError(err)
		e.Message = "the embedded NATS server is not ready: " + e.Message
		return &e
	}
	d.closers = append(d.closers, stopping{d, server})
	d.Log.Info("the embedded NATS server is ready", "after", d.Now().Sub(begun))
	return nil
}

// stopping stops the server in the way that the node ends.
type stopping struct {
	d      *daemon
	server NATSServer
}

func (s stopping) Close() error {
	if s.d.aborted {
		s.server.Shutdown()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	s.server.Leave(ctx)
	return nil
}
