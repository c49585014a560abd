package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/cmd/node/config"
)

// Joining is what a node becomes a member of a cluster with.
type Joining struct {
	Config     config.Config
	Node       *actors.Node
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// Member is a node's membership of a cluster.
type Member interface {
	// Doer carries out requests wherever their tenants are served.
	api.Doer
	// View describes the cluster as this node sees it, as JSON.
	View() any
	// Ready returns why requests should rather go to other members; nil: they should not.
	Ready() error
	// Leave hands every tenant to another member; what is left is handed off by the node.
	Leave(ctx context.Context) error
	// Depart says goodbye once the node has stopped, and waits for the others that leave at the same time: they may
	// need the NATS server inside this node.
	Depart(ctx context.Context) error
	// Close ends the membership.
	Close() error
}

// join makes the node a member, if it has NATS servers.
func (d *daemon) join(ctx context.Context, registry prometheus.Registerer) error {
	if d.Config.NATSURL() == "" || d.Cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.Config.StartTimeout)
	defer cancel()
	member, err := d.Cluster.Join(ctx, Joining{Config: d.Config, Node: d.node, Registerer: registry, Log: d.Log})
	if err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	d.member = member
	d.closers = append(d.closers, member) // the last one, so that it is the first to be closed
	return nil
}

// leave hands the tenants to other members, if there are any, in three quarters of the time for a shutdown. What it
// cannot hand over, the node hands off in the rest of it: without a handoff, what no snapshot holds would be lost.
func (d *daemon) leave(ctx context.Context) {
	if d.member == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.Config.ShutdownTimeout*3/4)
	defer cancel()
	if err := d.member.Leave(ctx); err != nil {
		d.Log.Warn("not every tenant went to another member; the rest is handed off", "error", err)
	}
}

// depart ends the membership before the NATS server inside the node does.
func (d *daemon) depart(ctx context.Context) {
	if d.member == nil {
		return
	}
	if err := d.member.Depart(ctx); err != nil {
		d.Log.Warn("other members still leave; this node ends all the same", "error", err)
	}
}
