package daemon

import (
	"context"
	"errors"
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

// NATSServer is a running server inside the node.
type NATSServer interface {
	// Leave hands over what the server leads, waiting for that for a bounded time, and stops it.
	Leave(ctx context.Context)
	// Discard is Leave for a start that was refused: it also removes what the server has stored, if that was nothing before, and no
	// other server counts on it.
	Discard(ctx context.Context) error
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
	d.closers = append(d.closers, stopping{server})
	d.Log.Info("the embedded NATS server is ready", "after", d.Now().Sub(begun))
	return nil
}

// reopenPause is how long a node waits before it tries again to open a store on its own server.
const reopenPause = time.Second

// patiently opens a store. In a cluster whose servers have only just met, a stream may have no leader for longer than a
// store waits for an answer: its first election is won in a second, or repeated after 4 to 9 s if one of its
// members was not ready to vote. So a node with a server of its own tries again, until the time for a start is over.
func patiently[S any](ctx context.Context, d *daemon, what string, open func(context.Context) (S, error)) (store S, err error) {
	if !d.Config.Embedded || d.Config.NATSClusterListen == "" {
		return open(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, d.Config.StartTimeout)
	defer cancel()
	for {
		store, err = open(ctx)
		if err == nil || !errors.Is(err, messages.ErrUnavailable) || ctx.Err() != nil {
			return store, err
		}
		d.Log.Warn("waiting for the embedded NATS server", "store", what, "error", err)
		pause := time.NewTimer(reopenPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return store, err
		}
	}
}

// stopping stops the server.
type stopping struct{ server NATSServer }

func (s stopping) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	s.server.Leave(ctx)
	return nil
}

// Discard implements stores.Discarder.
func (s stopping) Discard() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	return s.server.Discard(ctx)
}
