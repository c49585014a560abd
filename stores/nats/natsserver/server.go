package natsserver

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/leasehold/leasehold/internal/fsync"
	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
)

// Server is a running NATS server. It is safe for concurrent use.
type Server struct {
	ns      *server.Server
	members int // that are named in the routes; 1: it stands alone
	dir     string
	fatal   *fatal
	once    sync.Once
}

// Start starts a server. It returns at once for a member of a cluster, and when the server answers for
// one that stands alone; see Ready and Join. The errors are CodeInvalidArgument for a Config that cannot
// work (see Check), CodeStorage if JetStream cannot use the folder, and CodeUnavailable if the server cannot listen.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	// The server itself would only log that it cannot use it, and never listen.
	if _, err := fsync.MkdirAll(opts.StoreDir, 0o700); err != nil {
		return nil, &messages.Error{Code: messages.CodeStorage, Object: cfg.Dir, Message: localfile.Because("cannot create the folder", err), Err: err}
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Object: cfg.Dir, Message: "the NATS server refuses its options", Err: err}
	}
	s := &Server{ns: ns, dir: cfg.Dir, members: 1, fatal: &fatal{Logger: cfg.Logger}}
	if cfg.Logger == nil {
		s.fatal.Logger = NewLogger(slog.New(slog.DiscardHandler))
	}
	if cfg.ClusterName != "" {
		s.members = max(1, len(cfg.Routes))
	}
	ns.SetLoggerV2(s.fatal, false, false, false)
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

// poll asks again and again, until ok or until the context ends. NATS offers no event for what is waited
// for here.
func poll(ctx context.Context, every time.Duration, what string, ok func() bool) error {
	tick := time.NewTicker(every)
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

// often is how often poll asks for what takes milliseconds.
const often = 2 * time.Millisecond

// listening waits for the client port, and for nothing of the cluster.
func (s *Server) listening(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := poll(ctx, often, "the NATS server does not listen", func() bool {
		return s.ns.Addr() != nil || !s.ns.Running() || s.fatal.first.Load() != nil
	})
	if err == nil {
		err = s.failed()
	}
	return err
}

// failed returns what the server itself calls fatal, as CodeUnavailable.
func (s *Server) failed() error {
	if first := s.fatal.first.Load(); first != nil {
		return &messages.Error{Code: messages.CodeUnavailable, Object: s.dir, Message: "the NATS server does not run: " + *first}
	}
	return nil
}

// Ready waits until JetStream answers: at once for a server that stands alone, after the first election
// for a member of a cluster. Start all members before the first Ready. It returns CodeUnavailable if
// the context ends before. A node that starts its server waits with Join.
func (s *Server) Ready(ctx context.Context) error {
	return poll(ctx, often, "JetStream is not ready", func() bool {
		return s.ns.JetStreamEnabled() && (!s.ns.JetStreamIsClustered() || s.ns.JetStreamIsCurrent())
	})
}

// URL returns the address for clients.
func (s *Server) URL() string { return s.ns.ClientURL() }

// NATS returns the server itself, for what this package does not offer: monitoring, in-process
// connections (nats.InProcessServer), leadership.
func (s *Server) NATS() *server.Server { return s.ns }

// Shutdown stops the server at once and waits for its end. It asks others to take what it leads, and
// does not wait for their answer: see Leave. Stopping twice is fine.
func (s *Server) Shutdown() {
	s.once.Do(func() {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
	})
}
