package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

var tokens = []string{strings.Repeat("a", 32), strings.Repeat("b", 40)}

func TestAuth_OnlyAConfiguredTokenComesIn(t *testing.T) {
	s := newShared(t).start(t, "a", func(c *setup) { c.api.Tokens = tokens })
	s.token = ""
	try := func(path string, values ...string) answer {
		return s.do(http.MethodGet, path, "", func(r *http.Request) { r.Header["Authorization"] = values })
	}
	for _, path := range []string{"/v1/tenants", tenantPath(tenantOne), "/metrics", "/openapi.yaml", "/nowhere"} {
		for _, values := range [][]string{
			nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer " + tokens[0][1:]}, {"Bearer " + tokens[0] + "a"},
			{"Basic " + tokens[0]}, {tokens[0]}, {"Bearer " + tokens[0], "Bearer " + tokens[0]}, {"Bearer " + strings.ToUpper(tokens[0])},
			{"Bearer " + tokens[0] + "," + tokens[1]},
		} {
			a := try(path, values...)
			refused(t, a, 401, messages.CodeUnauthorized)
			require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")
		}
	}
	for _, token := range tokens {
		require.Equal(t, 200, try("/v1/tenants", "Bearer "+token).status)
		require.Equal(t, 200, try("/v1/tenants", "bearer "+token).status)
	}
	require.Equal(t, 200, try("/healthz").status)
	require.Equal(t, 200, try("/readyz").status)
	require.NotContains(t, s.log.String(), tokens[0])
	// Whoever has a token may use any name for this node.
	a := s.do(http.MethodGet, "/v1/tenants", "", header("Authorization", "Bearer "+tokens[0]), func(r *http.Request) { r.Host = "leasehold.internal" })
	require.Equal(t, 200, a.status)
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
	refused(t, s.post(events, `{"kind":"a"}`, header("Sec-Fetch-Site", "cross-site")), 403, messages.CodeUnauthorized)
	refused(t, s.post(events, `{"kind":"a"}`, header("Origin", "https://evil.example")), 403, messages.CodeUnauthorized)
	// A form, which needs no preflight, is not JSON.
	refused(t, s.post(events, `{"kind":"a"}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }), 415, messages.CodeInvalidArgument)
	require.Equal(t, 200, s.do(http.MethodGet, "/healthz", "", host("probe.example")).status)
	into[appended](t, s.post(events, `{"kind":"a"}`), 200)
	require.Len(t, into[page](t, s.get(events), 200).Events, 1)
}
