package embedded

import (
	"context"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/cmd/node/daemon"
	"github.com/leasehold/leasehold/cmd/node/storeurl/engines"
	"github.com/leasehold/leasehold/messages"
)

// Join makes a node a member over a connection of its own. The errors are those of natsconn.Config.Connect
// and cluster.Join.
func (NATS) Join(ctx context.Context, j daemon.Joining) (daemon.Member, error) {
	c, name, err := engines.NATSConn(j.Config.NATSURL())
	if err != nil {
		return nil, err
	}
	c.Name, c.Log = "leasehold member "+j.Node.Owner(), j.Log
	conn, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	m, err := cluster.Join(ctx, cluster.Config{
		Node: j.Node, Conn: conn, Cluster: name, HeartbeatEvery: j.Config.Heartbeat, MovesPerSecond: j.Config.MovesPerSecond,
		MoveParallel: j.Config.MoveParallel, MaxRequests: j.Config.MaxRequests, Registerer: j.Registerer, Log: j.Log,
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &member{m, conn}, nil
}

// member is a membership with its connection.
type member struct {
	*cluster.Member
	conn *natsgo.Conn
}

// view is what GET /v1/members shows.
type view struct {
	Self    string         `json:"self"`
	Members []cluster.Info `json:"members"`
}

// View implements daemon.Member.
func (m *member) View() any { return view{Self: m.Node().Owner(), Members: m.Members()} }

// Ready implements daemon.Member. A node that is cut off from NATS serves what it serves, but cannot send anybody
// on.
func (m *member) Ready() error {
	switch {
	case m.Leaving():
		return &messages.Error{Code: messages.CodeDraining, Message: "the node leaves the cluster"}
	case !m.conn.IsConnected():
		return &messages.Error{Code: messages.CodeUnavailable, Message: "the node is cut off from the other members"}
	}
	return nil
}

// Close implements daemon.Member.
func (m *member) Close() error {
	defer m.conn.Close()
	return m.Member.Close()
}
