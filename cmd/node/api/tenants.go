package api

import (
	"context"
	"net/http"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

// tenantView describes a tenant. Status is there if it is open on this node, Lease if not: looking at
// a tenant does not open it.
type tenantView struct {
	Key    messages.Key    `json:"key"`
	Open   bool            `json:"open"`
	Status *actors.Status  `json:"status,omitempty"`
	Lease  *messages.Lease `json:"lease,omitempty"`
}

func (s *Server) showTenant(w http.ResponseWriter, r *http.Request) error {
	key, err := keyOf(r)
	if err != nil {
		return err
	}
	status, open, err := s.cfg.Node.Peek(r.Context(), key)
	switch {
	case err != nil:
		return err
	case open:
		reply(w, http.StatusOK, tenantView{Key: key, Open: true, Status: &status})
		return nil
	}
	lease, known, err := s.cfg.Leases.Read(r.Context(), key)
	switch {
	case err != nil:
		return err
	case !known:
		return &messages.Error{Code: messages.CodeNotFound, Key: key.String(), Message: "the tenant was never opened"}
	}
	reply(w, http.StatusOK, tenantView{Key: key, Lease: &lease})
	return nil
}

// tenantList lists the tenants with an actor on this node.
type tenantList struct {
	Owner   string          `json:"owner"`
	Tenants []actors.Status `json:"tenants"`
}

func (s *Server) listTenants(w http.ResponseWriter, r *http.Request) error {
	if err := checkQuery(r); err != nil {
		return err
	}
	tenants, err := s.cfg.Node.Tenants(r.Context())
	if err != nil {
		return err
	}
	if tenants == nil {
		tenants = []actors.Status{}
	}
	reply(w, http.StatusOK, tenantList{Owner: s.cfg.Node.Owner(), Tenants: tenants})
	return nil
}

type deriveRequest struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

type derived struct {
	Org    messages.OrgID    `json:"org"`
	Tenant messages.TenantID `json:"tenant"`
}

// derive tells a tenant's id. The identity is personal data: it goes into no log, no metric and no
// error, and creates nothing.
func (s *Server) derive(w http.ResponseWriter, r *http.Request) error {
	org := messages.OrgID(r.PathValue("org"))
	if err := org.Validate(); err != nil {
		return err
	}
	var request deriveRequest
	if err := s.bodyInto(w, r, &request); err != nil {
		return err
	}
	key, ok := s.cfg.OrgKeys[org]
	if !ok {
		return &messages.Error{Code: messages.CodeNotFound, Message: "this node has no key of that organization"}
	}
	id, err := messages.DeriveTenant(key, request.Issuer, request.Subject)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, derived{Org: org, Tenant: id})
	return nil
}

// order runs an operation without input.
func (s *Server) order(w http.ResponseWriter, r *http.Request, do func(context.Context, *actors.Tenant) error) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	t, err := s.tenant(r)
	if err != nil {
		return err
	}
	return do(r.Context(), t)
}

func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) error {
	return s.order(w, r, func(ctx context.Context, t *actors.Tenant) error {
		manifest, err := t.Snapshot(ctx)
		if err != nil {
			return err
		}
		reply(w, http.StatusOK, manifest)
		return nil
	})
}

func (s *Server) forget(w http.ResponseWriter, r *http.Request) error {
	return s.order(w, r, func(ctx context.Context, t *actors.Tenant) error {
		if err := t.Forget(ctx); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
}

func (s *Server) handoff(w http.ResponseWriter, r *http.Request) error {
	return s.giveBack(w, r, (*actors.Tenant).Handoff)
}

func (s *Server) abandon(w http.ResponseWriter, r *http.Request) error {
	return s.giveBack(w, r, (*actors.Tenant).Abandon)
}

// giveBack runs an operation that ends a tenant on this node. One that is not open is not opened only
// to be closed again.
func (s *Server) giveBack(w http.ResponseWriter, r *http.Request, do func(*actors.Tenant, context.Context) error) error {
	key, err := keyOf(r)
	if err != nil {
		return err
	}
	switch _, open, err := s.cfg.Node.Peek(r.Context(), key); {
	case err != nil:
		return err
	case !open:
		return s.notOwner(r.Context(), key)
	}
	return s.order(w, r, func(ctx context.Context, t *actors.Tenant) error {
		if err := do(t, ctx); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
}

// notOwner names who holds the tenant, as far as the lease store tells.
func (s *Server) notOwner(ctx context.Context, key messages.Key) error {
	e := &messages.Error{Code: messages.CodeNotOwner, Key: key.String(), Message: "the tenant is not open on this node"}
	lease, known, err := s.cfg.Leases.Read(ctx, key)
	if err != nil {
		return err
	}
	if known && lease.Owner != s.cfg.Node.Owner() {
		e.Owner, e.Epoch = lease.Owner, lease.Epoch
	}
	return e
}
