package natsserver

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/leasehold/leasehold/messages"
)

// Config says where a server keeps its data and how it is reached. Only Dir is needed.
type Config struct {
	// Dir is the folder of JetStream's files. Two servers must not share one.
	Dir string
	// Name of the server, unique in its cluster and kept over restarts; "": "leasehold".
	Name string
	// Host to listen on; "": 127.0.0.1.
	Host string
	// Port for clients; 0: a free one. After a restart a server gets another free one, which clients
	// find through the other members only: name a port for one that stands alone.
	Port int
	// ClusterName makes the server a member of a cluster of servers; "": it stands alone.
	ClusterName string
	// ClusterPort is where the other members reach it. Needed in a cluster.
	ClusterPort int
	// Routes are the "host:port" of the members' cluster ports (its own may be among them). Their
	// number is what the first election counts with, so all members must be named.
	Routes []string
	// MaxStore is how many bytes JetStream may use on the disk; 0: three quarters of what is free.
	MaxStore int64
	// NoSync leaves the fsync of every write out. An acknowledgement can then be lost in a power cut.
	NoSync bool
	// Configure, if not nil, may change the options before the server starts: TLS, accounts,
	// permissions, limits.
	Configure func(*server.Options) `json:"-"`
	// Logger takes what the server logs; nil: nothing is logged.
	Logger server.Logger `json:"-"`
}

// Server is a running NATS server. It is safe for concurrent use.
type Server struct {
	ns   *server.Server
	once sync.Once
}

// Start starts a server. It returns at once for a member of a cluster, and when the server answers for
// one that stands alone; see Ready. The errors are CodeInvalidArgument for a Config that cannot work, CodeStorage
// if JetStream cannot use the folder, and CodeUnavailable if the server does not listen in time.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	// The server itself would only log that it cannot use it, and never listen.
	if err := os.MkdirAll(opts.StoreDir, 0o700); err != nil {
		return nil, &messages.Error{Code: messages.CodeStorage, Object: cfg.Dir, Message: "cannot create the folder", Err: err}
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Object: cfg.Dir, Message: "the NATS server refuses its options", Err: err}
	}
	if cfg.Logger != nil {
		ns.SetLoggerV2(cfg.Logger, false, false, false)
	}
	s := &Server{ns: ns}
	ns.Start()
	if err := s.listening(ctx); err != nil {
		s.Shutdown()
		return nil, err
	}
	if !ns.JetStreamEnabled() {
		s.Shutdown()
		return nil, &messages.Error{Code: messages.CodeStorage, Object: cfg.Dir, Message: "JetStream does not start in this folder"}
	}
	return s, nil
}

func (cfg Config) options() (*server.Options, error) {
	if cfg.Dir == "" || cfg.Port < 0 || cfg.MaxStore < 0 || (cfg.ClusterName != "" && cfg.ClusterPort <= 0) {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument,
			Message: "a NATS server needs a folder, limits that are not negative, and in a cluster a cluster port"}
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeStorage, Object: cfg.Dir, Message: "no absolute path", Err: err}
	}
	opts := &server.Options{
		ServerName:        cfg.Name,
		Host:              cfg.Host,
		Port:              cfg.Port,
		JetStream:         true,
		StoreDir:          dir,
		JetStreamMaxStore: cfg.MaxStore,
		SyncAlways:        !cfg.NoSync,
		NoSigs:            true, // signals are the process's own business
		NoLog:             cfg.Logger == nil,
	}
	if opts.ServerName == "" {
		opts.ServerName = "leasehold"
	}
	if opts.Host == "" {
		opts.Host = "127.0.0.1"
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	if cfg.ClusterName != "" {
		opts.Cluster = server.ClusterOpts{Name: cfg.ClusterName, Host: opts.Host, Port: cfg.ClusterPort}
		for _, r := range cfg.Routes {
			if _, _, err := net.SplitHostPort(r); err != nil {
				return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "a route must be host:port", Err: err}
			}
			opts.Routes = append(opts.Routes, server.RoutesFromStr("nats://"+r)...)
		}
	}
	if cfg.Configure != nil {
		cfg.Configure(opts)
	}
	return opts, nil
}

// poll waits until ok, or the context ends. NATS offers no event for what is waited for here.
func poll(ctx context.Context, what string, ok func() bool) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeOf(ctx.Err()), Message: what, Err: context.Cause(ctx)}
		}
	}
	return nil
}

// listening waits for the client port, and for nothing of the cluster.
func (s *Server) listening(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return poll(ctx, "the NATS server does not listen", func() bool { return s.ns.Addr() != nil || !s.ns.Running() })
}

// Ready waits until JetStream answers: at once for a server that stands alone, after the first election
// for a member of a cluster. Start all members before the first Ready. It returns CodeUnavailable if
// the context ends before.
func (s *Server) Ready(ctx context.Context) error {
	return poll(ctx, "JetStream is not ready", func() bool {
		return s.ns.JetStreamEnabled() && (!s.ns.JetStreamIsClustered() || s.ns.JetStreamIsCurrent())
	})
}

// URL returns the address for clients.
func (s *Server) URL() string { return s.ns.ClientURL() }

// NATS returns the server itself, for what this package does not offer: monitoring, in-process
// connections (nats.InProcessServer), leadership.
func (s *Server) NATS() *server.Server { return s.ns }

// Shutdown stops the server and waits for its end. Leadership is handed over where there is somebody to
// take it. Stopping twice is fine.
func (s *Server) Shutdown() {
	s.once.Do(func() {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
	})
}
