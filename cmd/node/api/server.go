package api

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/internal/loglimit"
	"github.com/leasehold/leasehold/messages"
)

// OpenAPI is the description of the API, as it is served at /openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte

// LeaseReader is what the API asks of the lease store itself: who holds a tenant that is not open
// here, and whether the store answers.
type LeaseReader interface {
	Read(ctx context.Context, key messages.Key) (lease messages.Lease, ok bool, err error)
	// Release is only ever asked for a key that nobody holds, to see whether the store takes writes.
	Release(ctx context.Context, key messages.Key, owner string, epoch uint64) error
}

// ObjectLister is how the API asks whether the durable store answers.
type ObjectLister interface {
	List(ctx context.Context, prefix string) ([]string, error)
}

// Config is what a Server works with. Node, Leases and Durable are needed.
type Config struct {
	Node    *actors.Node
	Leases  LeaseReader
	Durable ObjectLister
	// Tenants carries out what is asked of tenants; default: Node. In a cluster it is the member, which
	// forwards to the owner.
	Tenants Doer
	// Members describes the cluster as this node sees it, as JSON; nil: the node is in none.
	Members func() any
	// Ready is asked by /readyz beside the stores; nil: nothing else is needed. An error says that requests
	// should not come here for now.
	Ready func() error
	// Tokens returns the bearer tokens that are taken now; nil: no token is needed, and only requests to a
	// loopback name are answered.
	Tokens func() Tokens
	// OrgKeys are the keys that tenant ids are derived with.
	OrgKeys map[messages.OrgID][]byte
	// MaxBody is the largest request body in bytes; default 16 MiB.
	MaxBody int64
	// RequestTimeout is the deadline of a request that names none (default 30 s), MaxTimeout the
	// latest that it may name (default 5 min).
	RequestTimeout, MaxTimeout time.Duration
	// Registry takes the metrics of the API and is what /metrics shows; default: one of its own.
	Registry *prometheus.Registry
	// Log gets panics and failures of Leasehold; never what a request carries. Default: slog.Default().
	Log *slog.Logger
	// Now is the clock of the metrics and of readiness; default time.Now.
	Now func() time.Time
}

// Server is the HTTP API of one node. It is safe for concurrent use.
type Server struct {
	cfg       Config
	guard     *guard
	untrusted *slog.Logger // for what clients can cause as often as they like
	mux       *http.ServeMux
	metrics   *metrics
	ready     readiness
	draining  atomic.Bool
}

// New returns a server. The error is that of a registry which has another server's metrics.
func New(cfg Config) (*Server, error) {
	if cfg.Tenants == nil {
		cfg.Tenants = cfg.Node
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 16 << 20
	}
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = 30 * time.Second
	}
	if cfg.MaxTimeout == 0 {
		cfg.MaxTimeout = 5 * time.Minute
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m, err := newMetrics(cfg.Registry)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, guard: newGuard(cfg.Tokens), untrusted: slog.New(loglimit.New(cfg.Log.Handler(), cfg.Now)), mux: http.NewServeMux(), metrics: m}
	for _, rt := range s.routes() {
		s.mux.Handle(rt.method+" "+rt.pattern, s.serve(rt))
	}
	s.mux.Handle("/", s.serve(route{pattern: "other", always: true, handle: s.noRoute}))
	return s, nil
}

// Drain makes the server refuse new requests with CodeDraining and /readyz fail. Requests in flight
// go on. There is no way back.
func (s *Server) Drain() { s.draining.Store(true) }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// ServeMux would redirect these, to somewhere that was not asked for.
	if p := r.URL.EscapedPath(); p != "/" && path.Clean(p) != p {
		s.serve(route{pattern: "other", open: true, always: true, handle: func(http.ResponseWriter, *http.Request) error {
			return invalid("the path has empty or dotted segments, or ends with a slash")
		}}).ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// serve wraps a route in what all have in common.
func (s *Server) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := s.cfg.Now()
		answer := &recorder{ResponseWriter: w, intake: s.cfg.Node.Intake()}
		defer answer.giveBack()
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		if r.ContentLength != 0 && rt.method != http.MethodPost {
			hangUp(w) // nobody wants this body
		}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.untrusted.Error("a handler panicked", "route", rt.pattern, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				if answer.status == 0 {
					fail(answer, &messages.Error{Code: messages.CodeInternal, Message: "a bug in Leasehold; the log has the stack"})
				}
			}
			s.metrics.request(rt.pattern, answer.status, s.cfg.Now().Sub(begun))
		}()
		if err := s.answer(rt, answer, r); err != nil {
			s.note(rt, err)
			fail(answer, err)
		}
	})
}

func (s *Server) answer(rt route, w http.ResponseWriter, r *http.Request) error {
	if !rt.open {
		if err := s.guard.check(r); err != nil {
			hangUp(w) // a stranger's connection, and maybe a body that never comes
			return err
		}
	}
	if s.draining.Load() && !rt.always {
		// The next request of this client should go to another node, and a connection that ends with
		// an answer cannot end in the middle of a request.
		w.Header().Set("Connection", "close")
		return &messages.Error{Code: messages.CodeDraining, RetryAfter: defaultRetryAfter, Message: "the node is shutting down"}
	}
	if rt.method == http.MethodPost {
		if err := checkContentType(r); err != nil {
			return err
		}
	}
	ctx, cancel, err := s.deadline(r)
	if err != nil {
		return err
	}
	defer cancel()
	return rt.handle(w, r.WithContext(ctx))
}

// hangUp ends a connection once it is answered. Without it, net/http waits for what is left of a body, to use the connection again.
func hangUp(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // where that is not to be had, it waits for read_timeout
}

// TimeoutHeader is the header in which a request names its own deadline, as a duration such as 2s or
// 150ms. Beyond Config.MaxTimeout it counts as that.
const TimeoutHeader = "Leasehold-Timeout"

func (s *Server) deadline(r *http.Request) (context.Context, context.CancelFunc, error) {
	timeout := s.cfg.RequestTimeout
	switch values := r.Header.Values(TimeoutHeader); len(values) {
	case 0:
	case 1:
		d, err := time.ParseDuration(values[0])
		if err != nil || d <= 0 {
			return nil, nil, invalid(TimeoutHeader + " must be a positive duration such as 2s")
		}
		timeout = min(d, s.cfg.MaxTimeout)
	default:
		return nil, nil, invalid(TimeoutHeader + " is given more than once")
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	return ctx, cancel, nil
}

// note logs what an operator must know.
func (s *Server) note(rt route, err error) {
	e := messages.AsError(err)
	switch e.Code {
	case messages.CodeInternal, messages.CodePanic, messages.CodeCorrupt, messages.CodeLineageAhead, messages.CodeLineageMissing, messages.CodeStorage:
		s.untrusted.Error("request failed", "route", rt.pattern, "code", e.Code, "key", e.Key, "epoch", e.Epoch, "object", e.Object)
	case messages.CodeUnavailable, messages.CodeUnknownOutcome:
		s.untrusted.Warn("request failed", "route", rt.pattern, "code", e.Code, "cause", e.Cause, "key", e.Key, "epoch", e.Epoch)
	}
}

// recorder remembers the status of an answer, and what it and its request hold of the node's memory.
type recorder struct {
	http.ResponseWriter
	status int
	intake *actors.Intake
	held   int64
}

// take takes room for more bytes, until the request is answered. CodeOverloaded: there is none.
func (r *recorder) take(bytes int) error {
	if err := r.intake.Take(int64(bytes)); err != nil {
		return err
	}
	r.held += int64(bytes)
	return nil
}

func (r *recorder) giveBack() { r.intake.Give(r.held) }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController and http.MaxBytesReader find what is below.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
