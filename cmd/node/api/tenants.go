package api

import (
	"net/http"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

// tenantView describes a tenant. Status is there if it is open on this node, Lease if not, or not any
// more (it is closing): looking at a tenant does not open it.
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
		stateHeaders(w.Header(), status.Owner, status.Epoch, 0)
		reply(w, http.StatusOK, tenantView{Key: key, Open: true, Status: &status})
		return nil
	}
	lease, _, err := s.cfg.Leases.Read(r.Context(), key)
	if err == nil && !lease.Exists() {
		if err = s.cfg.Node.Absent(r.Context(), key, lease); err == nil {
			lease, _, err = s.cfg.Leases.Read(r.Context(), key)
		}
	}
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, tenantView{Key: key, Lease: &lease})
	return nil
}

// tenantList lists the tenants with an actor on this node, those that are closing too.
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

// order has an operation without input carried out.
func (s *Server) order(w http.ResponseWriter, r *http.Request, action messages.Action) (*messages.Reply, error) {
	if _, err := keyOf(r); err != nil {
		return nil, err
	}
	if err := s.noBody(w, r); err != nil {
		return nil, err
	}
	return s.do(w, r, &messages.Request{Action: action})
}

func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) error {
	done, err := s.order(w, r, messages.ActionSnapshot)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, done.Manifest)
	return nil
}

// ends returns the handler of an operation that ends the tenant where it is open.
func (s *Server) ends(action messages.Action) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := s.order(w, r, action); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}
