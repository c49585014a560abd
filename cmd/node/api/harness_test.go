package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shared are the real stores that the nodes of a test have in common, behind wrappers that can fail.
type shared struct {
	root    string
	leases  *storetest.FaultyLeases
	durable *storetest.FaultyDurable
}

func newShared(t *testing.T) *shared {
	t.Helper()
	root := t.TempDir()
	leases, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(root, "leases.db"), NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, leases.Close()) })
	durable, err := dir.Open(t.Context(), dir.Config{Root: filepath.Join(root, "durable"), NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, durable.Close()) })
	return &shared{root: root, leases: storetest.NewFaultyLeases(leases), durable: storetest.NewFaultyDurable(durable)}
}

// service is one node with its API on a real listener.
type service struct {
	t      *testing.T
	root   string // of the nodes' local files and stores
	node   *actors.Node
	member *cluster.Member // nil: in no cluster
	nats   *nats.Conn      // the member's
	server *api.Server
	url    string
	client *http.Client
	log    *logBuffer
	token  string // sent with every request, if there is one
}

type setup struct {
	api  api.Config
	node actors.Config
	join func(*actors.Node) (*cluster.Member, *nats.Conn) // makes the node a member of a cluster
}

var orgKey = bytes.Repeat([]byte{7}, 32)

const (
	issuer  = "https://idp.example/acme"
	subject = "user-1"
	// tenantOne is what issuer and subject lead to (contract, A1).
	tenantOne = "t-3129611eac9be1d5994a2b216b06ed27"
	tenantTwo = "t-00000000000000000000000000000002"
)

func (s *shared) start(t *testing.T, name string, change ...func(*setup)) *service {
	t.Helper()
	log := &logBuffer{}
	logger := slog.New(slog.NewJSONHandler(log, nil))
	cfg := setup{
		api: api.Config{Leases: s.leases, Durable: s.durable, OrgKeys: map[messages.OrgID][]byte{"acme": orgKey}, MaxBody: 4 << 20, Log: logger},
		node: actors.Config{
			NodeName: name, StateRoot: filepath.Join(s.root, name), Leases: s.leases, Durable: s.durable, Log: logger, Commands: commands,
			SnapshotEvery: time.Hour,
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	node, err := actors.Start(t.Context(), cfg.node)
	require.NoError(t, err)
	cfg.api.Node = node
	var member *cluster.Member
	var conn *nats.Conn
	if cfg.join != nil {
		member, conn = cfg.join(node)
		cfg.api.Tenants, cfg.api.Members = member, func() any { return member.Members() }
	}
	server, err := api.New(cfg.api)
	require.NoError(t, err)
	ts := httptest.NewServer(server)
	t.Cleanup(func() {
		ts.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = node.Shutdown(ctx) // tests that damage a tenant see its handoff fail
		if member != nil {
			require.NoError(t, member.Close())
		}
	})
	transport := newValidating(t, ts.Client().Transport)
	out := &service{t: t, root: s.root, node: node, member: member, nats: conn, server: server, url: ts.URL, client: &http.Client{Transport: transport}, log: log}
	return out
}

// logBuffer is a log that many goroutines write.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// commands are an application's.
var commands = map[string]ledgeractor.Command{
	"record": func(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
		return tx.Append(ctx, messages.Event{Kind: "recorded", Payload: in})
	},
	"fail": func(context.Context, *ledgeractor.Tx, json.RawMessage) (any, error) {
		return nil, errors.New("sold out")
	},
	"panic": func(context.Context, *ledgeractor.Tx, json.RawMessage) (any, error) { panic("app code") },
	"take":  func(context.Context, *ledgeractor.Tx, json.RawMessage) (any, error) { return nil, nil },
	"large": func(context.Context, *ledgeractor.Tx, json.RawMessage) (any, error) {
		return strings.Repeat("x", 4<<20), nil
	},
	"echo": func(_ context.Context, _ *ledgeractor.Tx, in json.RawMessage) (any, error) { return in, nil },
	"wait": func(ctx context.Context, _ *ledgeractor.Tx, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	},
}

// validating checks every request that was accepted, and every answer, against openapi.yaml.
type validating struct {
	t      *testing.T
	router routers.Router
	next   http.RoundTripper
}

func newValidating(t *testing.T, next http.RoundTripper) *validating {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	require.NoError(t, err)
	router, err := legacy.NewRouter(doc)
	require.NoError(t, err)
	return &validating{t, router, next}
}

func (v *validating) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	response, err := v.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	relative := r.Clone(r.Context())
	relative.URL.Scheme, relative.URL.Host = "", ""
	relative.Body = io.NopCloser(bytes.NewReader(sent))
	found, params, err := v.router.FindRoute(relative)
	if err != nil {
		// Not a route: the answer must be an error all the same.
		require.Contains(v.t, []int{400, 403, 401, 404, 405}, response.StatusCode, "%s %s", r.Method, r.URL)
		return response, nil
	}
	input := &openapi3filter.RequestValidationInput{
		Request: relative, PathParams: params, Route: found,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if response.StatusCode < 300 {
		require.NoError(v.t, openapi3filter.ValidateRequest(r.Context(), input), "an accepted request that openapi.yaml does not allow")
	}
	require.NoError(v.t, openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: input.Options,
	}), "%s %s answered %d %s", r.Method, r.URL, response.StatusCode, body)
	return response, nil
}

// answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (s *service) do(method, path, body string, change ...func(*http.Request)) answer {
	s.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, reader)
	require.NoError(s.t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for _, c := range change {
		c(r)
	}
	response, err := s.client.Do(r)
	require.NoError(s.t, err)
	data, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, response.Body.Close())
	return answer{response.StatusCode, response.Header, data}
}

func (s *service) get(path string) answer { return s.do(http.MethodGet, path, "") }

func (s *service) post(path, body string, change ...func(*http.Request)) answer {
	s.t.Helper()
	return s.do(http.MethodPost, path, body, change...)
}

// until asks again and again, up to a minute: for what depends on a lease's real time.
func (s *service) until(ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatal("it did not happen within a minute")
		}
	}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func tenantPath(id string) string { return "/v1/orgs/acme/tenants/" + id }

// into decodes the body of a successful answer.
func into[T any](t *testing.T, a answer, status int) T {
	t.Helper()
	var out T
	require.Equal(t, status, a.status, "%s", a.body)
	if len(a.body) > 0 {
		require.NoError(t, json.Unmarshal(a.body, &out), "%s", a.body)
	}
	return out
}

// refused wants an error with a code, and returns it.
func refused(t *testing.T, a answer, status int, code messages.Code) *messages.Error {
	t.Helper()
	require.Equal(t, status, a.status, "%s", a.body)
	e := &messages.Error{}
	require.NoError(t, json.Unmarshal(a.body, e), "%s", a.body)
	require.Equal(t, code, e.Code, "%s", a.body)
	return e
}
