package api_test

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/messages"
)

var tokens = []string{strings.Repeat("a", 32), strings.Repeat("b", 40)}

// guarded is a service that wants a token, and sends none by itself.
func guarded(t *testing.T) *service {
	return newShared(t).start(t, "a", func(c *setup) {
		c.api.Tokens = func() api.Tokens { return api.NewTokens(tokens...) }
	})
}

// request makes a request of a route's "METHOD /path", with values for what the path leaves open.
func (s *service) request(route string, change ...func(*http.Request)) answer {
	s.t.Helper()
	method, pattern, _ := strings.Cut(route, " ")
	path := strings.NewReplacer("{org}", "acme", "{tenant}", tenantOne, "{name}", "record").Replace(pattern)
	require.NotContains(s.t, path, "{", "a part that this test has no value for")
	body := ""
	if method == http.MethodPost {
		body = "{}"
	}
	return s.do(method, path, body, change...)
}

// open are the routes that whoever reaches the node may use.
var open = []string{"GET /healthz", "GET /readyz"}

// Every other route wants a token, and also what is no route: it does not say so to strangers.
func TestAuth_OnlyAConfiguredTokenComesIn(t *testing.T) {
	s := guarded(t)
	authorization := func(values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Authorization"] = values }
	}
	routes := s.server.Routes()
	require.Greater(t, len(routes), 10)
	for _, route := range append(routes, "GET /nowhere", "POST /nowhere", "DELETE /v1/tenants", "PUT "+tenantPath(tenantOne)+"/events") {
		if slices.Contains(open, route) {
			require.Equal(t, 200, s.request(route).status, route)
			continue
		}
		for _, values := range [][]string{
			nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer " + tokens[0][1:]}, {"Bearer " + tokens[0] + "a"},
			{"Basic " + tokens[0]}, {tokens[0]}, {"Bearer " + tokens[0], "Bearer " + tokens[0]}, {"Bearer " + strings.ToUpper(tokens[0])},
			{"Bearer " + tokens[0] + "," + tokens[1]},
		} {
			a := s.request(route, authorization(values...))
			require.Equal(t, 401, a.status, "%s with %q: %s", route, values, a.body)
			refused(t, a, 401, messages.CodeUnauthorized)
			require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")
		}
		require.NotContains(t, []int{401, 403}, s.request(route, authorization("Bearer "+tokens[0])).status, route)
		require.NotContains(t, []int{401, 403}, s.request(route, authorization("bearer "+tokens[1])).status, route)
	}
	require.NotContains(t, s.log.String(), tokens[0])
	// Whoever has a token may use any name for this node.
	a := s.do(http.MethodGet, "/v1/tenants", "", header("Authorization", "Bearer "+tokens[0]), func(r *http.Request) { r.Host = "leasehold.internal" })
	require.Equal(t, 200, a.status)
}

// Whoever has no token gets no connection for a body that does not come.
func TestAuth_AStrangersConnectionIsClosedAtOnce(t *testing.T) {
	s := guarded(t)
	for _, request := range []string{
		"POST /v1/orgs/acme/tenants/" + tenantOne + "/events HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n",
		"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n",
		"POST /a/../b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err = io.WriteString(conn, request)
		require.NoError(t, err)
		text, err := io.ReadAll(conn)
		require.NoError(t, err, "the connection is left open: %s", text)
		require.NoError(t, conn.Close())
	}
}

// Without a token, a page of another site can neither post here nor read through a name of its own
// that was rebound to this machine.
func TestAuth_WithoutATokenOnlyThisMachineItselfComesIn(t *testing.T) {
	s := newShared(t).start(t, "a")
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for _, name := range []string{"evil.example", "evil.example:7070", "10.0.0.1", "localhost.evil.example", "127.0.0.1.evil.example", "[2001:db8::1]:80"} {
		refused(t, s.do(http.MethodGet, "/v1/tenants", "", host(name)), 403, messages.CodeUnauthorized)
		refused(t, s.post(tenantPath(tenantOne)+"/events", `{"kind":"a"}`, host(name)), 403, messages.CodeUnauthorized)
	}
	for _, name := range []string{"localhost", "LOCALHOST:7070", "127.0.0.1", "127.8.9.1:1", "[::1]:7070", "[::1]"} {
		require.Equal(t, 200, s.do(http.MethodGet, "/v1/tenants", "", host(name)).status)
	}
	events := tenantPath(tenantOne) + "/events"
	// A form, which needs no preflight, is not JSON.
	refused(t, s.post(events, `{"kind":"a"}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }), 415, messages.CodeInvalidArgument)
	require.Equal(t, 200, s.do(http.MethodGet, "/healthz", "", host("probe.example")).status)
	into[appended](t, s.post(events, `{"kind":"a"}`), 200)
	require.Len(t, into[page](t, s.get(events), 200).Events, 1)
}

// Q2: no page of another site, of another port of this machine either, reaches any route by any method: a link, an
// image and a form are requests too.
func TestQ2_CrossSiteRequestsAreRefusedForEveryMethod(t *testing.T) {
	s := newShared(t).start(t, "a")
	for _, route := range append(s.server.Routes(), "GET /nowhere", "HEAD /v1/tenants", "OPTIONS /v1/tenants", "DELETE /v1/tenants") {
		if slices.Contains(open, route) {
			continue
		}
		for name, values := range map[string][]string{
			"Sec-Fetch-Site": {"cross-site", "same-site"},
			"Origin":         {"https://evil.example", "http://localhost:3000", "null"},
		} {
			for _, value := range values {
				a := s.request(route, header(name, value))
				require.Equal(t, 403, a.status, "%s with %s: %s", route, name, value)
			}
		}
	}
	require.Empty(t, into[struct{ Tenants []any }](t, s.get("/v1/tenants"), 200).Tenants, "nothing was opened")
	for _, site := range []string{"none", "same-origin"} {
		require.Equal(t, 200, s.do(http.MethodGet, "/v1/tenants", "", header("Sec-Fetch-Site", site)).status)
	}
	require.Equal(t, 200, s.do(http.MethodGet, "/v1/tenants", "", header("Origin", s.url)).status)
}
