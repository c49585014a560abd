package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leasehold/leasehold/messages"
)

// probeKey is a well-formed key that no tenant has: ids are derived, and the organization is this.
var probeKey = messages.Key{Org: "readyz", Tenant: "t-00000000000000000000000000000000"}

const (
	probeTimeout = 2 * time.Second
	// probeEvery bounds how often the stores are asked, however often /readyz is.
	probeEvery = time.Second
)

// readiness remembers the last answer of the stores.
type readiness struct {
	mu    sync.Mutex
	at    time.Time
	err   error
	asked bool
}

type health struct {
	Status string `json:"status"`
}

// healthz says that the process answers.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	reply(w, http.StatusOK, health{Status: "ok"})
	return nil
}

// readyz says whether new requests should come here: both stores answer, the local disk has room for new tenants, no alarm
// stands, nothing else that the node needs is missing, and it does not drain.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if s.draining.Load() {
		return &messages.Error{Code: messages.CodeDraining, Message: "the node is shutting down"}
	}
	if err := s.probe(r.Context()); err != nil {
		return err
	}
	if err := s.cfg.Node.Full(); err != nil {
		return notReady(err)
	}
	if standing := s.cfg.Node.Alarms(); len(standing) > 0 {
		return notReady(standing[0].Err)
	}
	if s.cfg.Ready != nil {
		if err := s.cfg.Ready(); err != nil {
			return notReady(err)
		}
	}
	reply(w, http.StatusOK, health{Status: "ready"})
	return nil
}

// notReady makes a refusal of every error: whoever probes looks at the status.
func notReady(err error) error {
	e := messages.AsError(err)
	if Status(e.Code) == http.StatusServiceUnavailable {
		return e
	}
	return &messages.Error{Code: messages.CodeUnavailable, Cause: e.Code, Key: e.Key, Object: e.Object, Message: "the node is not ready: " + e.Message, Err: err}
}

// showMembers describes the cluster as this node sees it.
func (s *Server) showMembers(w http.ResponseWriter, r *http.Request) error {
	if err := checkQuery(r); err != nil {
		return err
	}
	if s.cfg.Members == nil {
		return &messages.Error{Code: messages.CodeNotFound, Message: "this node is in no cluster"}
	}
	reply(w, http.StatusOK, s.cfg.Members())
	return nil
}

func (s *Server) probe(ctx context.Context) error {
	p := &s.ready
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked && s.cfg.Now().Sub(p.at) < probeEvery {
		return p.err
	}
	// Others wait for this answer, so that it must not depend on one caller's patience.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	unavailable := func(store string, err error) error {
		if err == nil {
			return nil
		}
		return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeOf(err), Message: "the " + store + " store does not answer", Err: err}
	}
	// A release of what nobody holds is refused, and changes nothing; but unlike a read it needs all
	// that a renewal needs: a store that is locked or full answers reads.
	err := s.cfg.Leases.Release(ctx, probeKey, "readyz", 1)
	if errors.Is(err, messages.ErrLost) {
		err = nil
	}
	if p.err = unavailable("lease", err); p.err == nil {
		_, err = s.cfg.Durable.List(ctx, probeKey.Prefix())
		p.err = unavailable("durable", err)
	}
	p.at, p.asked = s.cfg.Now(), true
	return p.err
}

func (s *Server) showMetrics(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(s.cfg.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}

func (s *Server) showOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(OpenAPI) // nobody is left to be told that the client is gone
	return nil
}
