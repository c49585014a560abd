// Package embedded runs a NATS server inside a node, for `node run --nats-embedded`. It is apart from package
// daemon so that a program that never asks for one does not link one.
//
// # Start here
//
// Pass [NATS] to cli.Program, as cmd/node does, or to daemon.Options.
package embedded

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/cmd/node/daemon"
	"github.com/leasehold/leasehold/internal/loglimit"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

// clusterName is how the members' servers name their cluster, unless their file does.
const clusterName = "leasehold"

// NATS is the daemon.Cluster whose servers are those of stores/nats/natsserver. It has no state, and is
// safe for concurrent use.
type NATS struct{}

var _ daemon.Cluster = NATS{}

// Check returns why a server with these settings could never run, or could be reached by strangers, as
// CodeInvalidArgument. It starts nothing and creates nothing.
func (NATS) Check(c config.Config) error {
	cfg, err := serverConfig(c)
	if err != nil {
		return err
	}
	return cfg.Check()
}

// Open reports whether the server lets in whoever reaches it.
func (NATS) Open(c config.Config) bool {
	cfg, err := serverConfig(c)
	return err == nil && cfg.Open()
}

// Start starts the server in <state root>/nats, and waits until it can be relied upon (natsserver.Server.Join).
// Its name is the node's, as it was when the folder was first used. The errors are those of
// natsserver.Start, Join and KeptName. Where the server cannot listen, nothing is created.
func (NATS) Start(ctx context.Context, c config.Config, log *slog.Logger) (_ daemon.NATSServer, err error) {
	cfg, err := serverConfig(c)
	if err != nil {
		return nil, err
	}
	if err := cfg.Listenable(ctx); err != nil { // before there is anything of a server that would not run
		return nil, err
	}
	_, err = os.Stat(cfg.Dir)
	s := &server{log: log, dir: cfg.Dir, ours: errors.Is(err, fs.ErrNotExist) && cfg.ClusterName == ""}
	defer func() {
		if err != nil && s.ours {
			err = errors.Join(err, os.RemoveAll(cfg.Dir))
		}
	}()
	name := cfg.Name
	if cfg.Name, err = natsserver.KeptName(cfg.Dir, name); err != nil {
		return nil, err
	}
	if cfg.Name != name {
		log.Warn("the embedded NATS server keeps the name that its folder belongs to", "name", cfg.Name, "node_name", name)
	}
	cfg.Logger = natsserver.NewLogger(slog.New(loglimit.New(log.Handler(), time.Now)))
	if s.Server, err = natsserver.Start(ctx, cfg); err != nil {
		return nil, err
	}
	if err = s.Join(ctx, log); err != nil {
		s.Shutdown()
		return nil, err
	}
	return s, nil
}

// server is a running server that says what its end means for the others.
type server struct {
	*natsserver.Server
	log  *slog.Logger
	dir  string
	ours bool // the folder was created for it, and no other member has heard of it
}

// Leave implements daemon.NATSServer.
func (s *server) Leave(ctx context.Context) {
	if st := s.Status(); !st.Spare() {
		s.log.Warn("with this member the cluster loses its majority: the nodes that are left serve until their leases end, and cannot copy what they serve",
			"members", st.Members, "reachable", st.Reachable)
	}
	s.Server.Leave(ctx)
}

// Discard implements daemon.NATSServer.
func (s *server) Discard(ctx context.Context) error {
	s.Leave(ctx)
	if !s.ours {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// serverConfig turns the settings of a node into those of its server.
func serverConfig(c config.Config) (natsserver.Config, error) {
	name := c.NodeName
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return natsserver.Config{}, &messages.Error{Code: messages.CodeInvalidArgument, Message: "the host has no name; set node_name", Err: err}
		}
	}
	cfg := natsserver.Config{Dir: filepath.Join(c.StateRoot, "nats"), Name: natsserver.SafeName(name), ConfigFile: c.NATSConfig, MaxConnections: c.MaxConnections}
	var err error
	if cfg.Host, cfg.Port, err = hostPort(c.NATS.Listen); err != nil {
		return cfg, err
	}
	if c.NATSClusterListen == "" {
		return cfg, nil
	}
	cfg.ClusterName, cfg.Routes = clusterName, c.RouteList()
	cfg.ClusterHost, cfg.ClusterPort, err = hostPort(c.NATSClusterListen)
	return cfg, err
}

// hostPort splits an address to listen on. No host means all interfaces, as for the HTTP API.
func hostPort(address string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(number)
	}
	if err != nil {
		return "", 0, &messages.Error{Code: messages.CodeInvalidArgument, Message: "an address of the NATS server is not HOST:PORT", Err: err}
	}
	if host == "" {
		host = "0.0.0.0"
	}
	return host, port, nil
}
