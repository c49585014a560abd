package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/messages"
)

// route is one operation of the API.
type route struct {
	method, pattern string
	// open routes need no token; always ones are answered while the node drains.
	open, always bool
	// handle answers, or returns the error to answer with.
	handle func(w http.ResponseWriter, r *http.Request) error
}

const tenantPattern = "/v1/orgs/{org}/tenants/{tenant}"

func (s *Server) routes() []route {
	get, post := http.MethodGet, http.MethodPost
	return []route{
		{method: get, pattern: "/healthz", open: true, always: true, handle: s.healthz},
		{method: get, pattern: "/readyz", open: true, always: true, handle: s.readyz},
		{method: get, pattern: "/metrics", always: true, handle: s.showMetrics},
		{method: get, pattern: "/openapi.yaml", always: true, handle: s.showOpenAPI},
		{method: get, pattern: "/v1/tenants", always: true, handle: s.listTenants},
		{method: get, pattern: "/v1/members", always: true, handle: s.showMembers},
		{method: post, pattern: "/v1/orgs/{org}/tenants:derive", handle: s.derive},
		{method: get, pattern: tenantPattern, always: true, handle: s.showTenant},
		{method: post, pattern: tenantPattern + "/events", handle: s.appendEvents},
		{method: get, pattern: tenantPattern + "/events", handle: s.readEvents},
		{method: post, pattern: tenantPattern + "/query", handle: s.query},
		{method: post, pattern: tenantPattern + "/commands/{name}", handle: s.command},
		{method: post, pattern: tenantPattern + "/snapshot", handle: s.snapshot},
		{method: post, pattern: tenantPattern + "/handoff", handle: s.ends(messages.ActionHandoff)},
		{method: post, pattern: tenantPattern + "/abandon", handle: s.ends(messages.ActionAbandon)},
		{method: post, pattern: tenantPattern + "/forget", handle: s.ends(messages.ActionForget)},
	}
}

// noRoute answers what no route matches.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) error {
	notFound := &messages.Error{Code: messages.CodeNotFound, Message: "there is no such route"}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 || slices.Contains(allowed, r.Method) {
		return notFound
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	notFound.Message = "this path does not have this method"
	return refusal{notFound, http.StatusMethodNotAllowed}
}

// keyOf reads the tenant from the path. A malformed id is refused before anything else is done.
func keyOf(r *http.Request) (messages.Key, error) {
	return messages.NewKey(messages.OrgID(r.PathValue("org")), messages.TenantID(r.PathValue("tenant")))
}

// checkQuery refuses query parameters that the route does not have, repeated ones, and what
// [url.URL.Query] would leave out without a word.
func checkQuery(r *http.Request, known ...string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("the query parameters cannot be read")
	}
	for name, values := range query {
		if !slices.Contains(known, name) {
			return invalid("unknown query parameter " + clip(name))
		}
		if len(values) > 1 {
			return invalid("query parameter " + name + " is given more than once")
		}
	}
	return nil
}
