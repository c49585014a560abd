package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

type appended struct {
	Epoch  uint64
	Events []messages.Appended
}

type page struct {
	Events []messages.StoredEvent
	More   bool
	Next   int64
}

type view struct {
	Key    messages.Key
	Open   bool
	Status *actors.Status
	Lease  *messages.Lease
}

func TestAppend_OneAndManyAnswerWithEpochAndSeq(t *testing.T) {
	s := newShared(t).start(t, "a")
	events := tenantPath(tenantOne) + "/events"
	one := into[appended](t, s.post(events, `{"kind":"trip.logged","payload":{"km":7},"actor":"x","time":"2026-01-02T03:04:05Z"}`), 200)
	require.Equal(t, appended{1, []messages.Appended{{Seq: 1}}}, one)
	many := into[appended](t, s.post(events, `{"events":[{"kind":"a"},{"kind":"b","idem_key":"k"},{"kind":"b","idem_key":"k"}]}`), 200)
	require.Equal(t, appended{1, []messages.Appended{{Seq: 2}, {Seq: 3}, {Seq: 3, Duplicate: true}}}, many)
}

// W2: a retry with its key gets the first one's seq, also after a handoff, at the next epoch.
func TestW2_RetryWithItsKeyGetsOneEvent(t *testing.T) {
	s := newShared(t).start(t, "a")
	events := tenantPath(tenantOne) + "/events"
	key := header(api.IdempotencyHeader, "retry-1")
	require.Equal(t, appended{1, []messages.Appended{{Seq: 1}}}, into[appended](t, s.post(events, `{"kind":"a"}`, key), 200))
	require.Equal(t, 204, s.post(tenantPath(tenantOne)+"/handoff", "{}").status)
	require.Equal(t, appended{2, []messages.Appended{{Seq: 1, Duplicate: true}}}, into[appended](t, s.post(events, `{"kind":"a"}`, key), 200))
	require.Equal(t, appended{2, []messages.Appended{{Seq: 1, Duplicate: true}}}, into[appended](t, s.post(events, `{"kind":"a","idem_key":"retry-1"}`), 200))
	require.Equal(t, appended{2, []messages.Appended{{Seq: 2}}}, into[appended](t, s.post(events, `{"kind":"a"}`), 200))
}

func TestEvents_PagesAreWholeAndInOrder(t *testing.T) {
	s := newShared(t).start(t, "a", func(c *setup) { c.node.Limits.MaxRows = 50 })
	events := tenantPath(tenantOne) + "/events"
	var many []messages.Event
	for i := range 120 {
		many = append(many, messages.Event{Kind: fmt.Sprintf("k%d", i), Payload: json.RawMessage(fmt.Sprintf(`{"i":%d}`, i))})
	}
	body, err := json.Marshal(map[string]any{"events": many})
	require.NoError(t, err)
	require.Len(t, into[appended](t, s.post(events, string(body)), 200).Events, 120)
	var all []messages.StoredEvent
	for after, more := int64(0), true; more; {
		p := into[page](t, s.get(fmt.Sprintf("%s?after=%d&limit=33", events, after)), 200)
		require.LessOrEqual(t, len(p.Events), 33)
		all = append(all, p.Events...)
		after, more = p.Next, p.More
	}
	require.Len(t, all, 120)
	for i, e := range all {
		require.EqualValues(t, i+1, e.Seq)
		require.Equal(t, fmt.Sprintf("k%d", i), e.Kind)
	}
	capped := into[page](t, s.get(events+"?limit=1000000"), 200)
	require.True(t, capped.More)
	require.Len(t, capped.Events, 50)
	last := into[page](t, s.get(events+"?after=999"), 200)
	require.Equal(t, page{Events: []messages.StoredEvent{}, Next: 999}, last)
}

func TestQuery_ValuesOfEveryKind(t *testing.T) {
	s := newShared(t).start(t, "a")
	query := tenantPath(tenantOne) + "/query"
	s.post(tenantPath(tenantOne)+"/events", `{"kind":"a"}`)
	out := into[ledgeractor.Result](t, s.post(query, `{"sql":"SELECT ? a, ? b, ? c, ? d, typeof(?) e","args":[9007199254740993, 1.5, "ü", null, {"base64":"AAE="}]}`), 200)
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, out.Columns)
	require.Equal(t, []any{int64(9007199254740993), 1.5, "ü", nil, "blob"}, rows(t, s.post(query, `{"sql":"SELECT ?, ?, ?, ?, typeof(?)","args":[9007199254740993, 1.5, "ü", null, {"base64":"AAE="}]}`))[0])
	empty := s.post(query, `{"sql":"SELECT seq FROM events WHERE seq > 1"}`)
	require.JSONEq(t, `{"columns":["seq"],"rows":[]}`, string(empty.body))
}

// rows reads the rows of a result.
func rows(t *testing.T, a answer) [][]any {
	t.Helper()
	return into[messages.Result](t, a, 200).Rows
}

func TestCommand_EveryOutcome(t *testing.T) {
	s := newShared(t).start(t, "a")
	command := tenantPath(tenantOne) + "/commands/"
	require.JSONEq(t, `{"epoch":1,"output":{"seq":1}}`, string(s.post(command+"record", `{"x":1}`).body))
	require.JSONEq(t, `{"epoch":1,"output":[1,null,"a"]}`, string(s.post(command+"echo", `[1,null,"a"]`).body))
	refused(t, s.post(command+"fail", `{}`), 422, messages.CodeCommandFailed)
	refused(t, s.post(command+"panic", `{}`), 500, messages.CodePanic)
	refused(t, s.post(command+"absent", `{}`), 404, messages.CodeNotFound)
	refused(t, s.post(command+"record", ``), 400, messages.CodeInvalidArgument)
	// What failed left nothing.
	require.Len(t, into[page](t, s.get(tenantPath(tenantOne)+"/events"), 200).Events, 1)
}

func TestOrders_SnapshotHandoffAbandonForget(t *testing.T) {
	sh := newShared(t)
	s := sh.start(t, "a")
	path := tenantPath(tenantOne)
	into[appended](t, s.post(path+"/events", `{"kind":"kept"}`), 200)
	manifest := into[messages.Manifest](t, s.post(path+"/snapshot", "{}"), 200)
	require.EqualValues(t, 1, manifest.Snapshot)
	require.EqualValues(t, 1, manifest.Events)
	into[appended](t, s.post(path+"/events", `{"kind":"lost with the abandon"}`), 200)
	require.Equal(t, 204, s.post(path+"/abandon", "").status)
	// H4: what no snapshot held is lost.
	require.Len(t, into[page](t, s.get(path+"/events"), 200).Events, 1)
	into[appended](t, s.post(path+"/events", `{"kind":"kept by the handoff"}`), 200)
	require.Equal(t, 204, s.post(path+"/handoff", "").status)
	// H1: everything is there at the next epoch.
	require.Len(t, into[page](t, s.get(path+"/events"), 200).Events, 2)
	require.EqualValues(t, 3, into[view](t, s.get(path), 200).Status.Epoch)
	// H6: nothing is left, and the next epoch starts empty.
	require.Equal(t, 204, s.post(path+"/forget", "{}").status)
	names, err := sh.durable.List(t.Context(), "acme/"+tenantOne+"/")
	require.NoError(t, err)
	require.Equal(t, []string{"acme/" + tenantOne + "/floor-00000003.json"}, names, "what a reseed needs, and nothing else")
	refused(t, s.get(path), 404, messages.CodeUnknownTenant)
	into[appended](t, s.post(path+"/events", `{"kind":"anew"}`), 200)
	require.Len(t, into[page](t, s.get(path+"/events"), 200).Events, 1)
	require.EqualValues(t, 4, into[view](t, s.get(path), 200).Status.Epoch)
}

// A tenant is not open any more from when its lease is on the way back: the answer of an order to end it
// does not wait until its actor is gone.
func TestOrders_ATenantThatIsClosingIsNotOpen(t *testing.T) {
	for _, order := range []string{"handoff", "abandon", "forget"} {
		t.Run(order, func(t *testing.T) {
			sh := newShared(t)
			s := sh.start(t, "a", func(c *setup) { c.node.TTL = 10 * time.Minute }) // and minutes for a release
			path := tenantPath(tenantOne)
			into[appended](t, s.post(path+"/events", `{"kind":"a"}`), 200)
			require.True(t, into[view](t, s.get(path), 200).Open)
			closed := func() messages.Lease {
				if order == "forget" {
					refused(t, s.get(path), 404, messages.CodeUnknownTenant)
					lease, _, err := sh.leases.Read(t.Context(), messages.Key{Org: "acme", Tenant: tenantOne})
					require.NoError(t, err)
					return lease
				}
				seen := into[view](t, s.get(path), 200)
				require.False(t, seen.Open)
				require.Nil(t, seen.Status)
				require.NotNil(t, seen.Lease)
				return *seen.Lease
			}
			reached, release := sh.leases.GateNext(storetest.OpRelease)
			given, answer := make(chan struct{}), make(chan struct{})
			sh.leases.AfterNext(storetest.OpRelease, func(context.Context, storetest.Call, storetest.Result) {
				close(given)
				<-answer
			})
			goOn := sync.OnceFunc(func() { close(answer) })
			defer func() { release(); goOn() }()
			ended := make(chan int, 1)
			go func() { ended <- s.post(path+"/"+order, "").status }()
			<-reached
			held := closed()
			require.Equal(t, s.node.Owner(), held.Owner)
			require.EqualValues(t, 1, held.Epoch)
			release()
			<-given
			require.True(t, closed().End.Before(held.End), "it is given back")
			goOn()
			require.Equal(t, 204, <-ended)
			require.EqualValues(t, 1, closed().Epoch)
		})
	}
}

// Looking at a tenant, and ending one that is not open, open nothing.
func TestStatus_OpensNothing(t *testing.T) {
	sh := newShared(t)
	a, b := sh.start(t, "a"), sh.start(t, "b")
	path := tenantPath(tenantOne)
	refused(t, a.get(path), 404, messages.CodeUnknownTenant)
	refused(t, a.post(path+"/handoff", ""), 404, messages.CodeUnknownTenant)
	refused(t, a.post(path+"/abandon", ""), 404, messages.CodeUnknownTenant)
	into[appended](t, b.post(path+"/events", `{"kind":"a"}`), 200)
	seen := into[view](t, a.get(path), 200)
	require.False(t, seen.Open)
	require.Equal(t, b.node.Owner(), seen.Lease.Owner)
	e := refused(t, a.post(path+"/handoff", ""), 421, messages.CodeNotOwner)
	require.Equal(t, b.node.Owner(), e.Owner)
	require.EqualValues(t, 1, e.Epoch)
	require.JSONEq(t, `{"owner":"`+a.node.Owner()+`","tenants":[]}`, string(a.get("/v1/tenants").body))
	require.Equal(t, 1, strings.Count(string(b.get("/v1/tenants").body), tenantOne))
	// T2: and a node that is refused creates no file.
	held := refused(t, a.post(path+"/events", `{"kind":"a"}`), 409, messages.CodeHeld)
	require.Equal(t, b.node.Owner(), held.Owner)
	require.EqualValues(t, 1, held.Epoch)
	require.EqualValues(t, 1, held.Lease.Epoch)
	require.NoDirExists(t, filepath.Join(sh.root, "a", "orgs"))
}

// A1, and A5: deriving creates nothing; the identity is in no log and no answer.
func TestA1_DeriveOverHTTP(t *testing.T) {
	sh := newShared(t)
	s := sh.start(t, "a")
	derive := func(issuer, subject string) answer {
		body, err := json.Marshal(map[string]string{"issuer": issuer, "subject": subject})
		require.NoError(t, err)
		return s.post("/v1/orgs/acme/tenants:derive", string(body))
	}
	require.JSONEq(t, `{"org":"acme","tenant":"`+tenantOne+`"}`, string(derive(issuer, subject).body))
	require.NotContains(t, string(derive(issuer, "user-2").body), tenantOne)
	refused(t, derive("", subject), 400, messages.CodeInvalidID)
	refused(t, derive(issuer, strings.Repeat("s", 513)), 400, messages.CodeInvalidID)
	into[map[string]string](t, derive(issuer, strings.Repeat("s", 512)), 200)
	refused(t, s.post("/v1/orgs/other/tenants:derive", `{"issuer":"a","subject":"b"}`), 404, messages.CodeNotFound)
	refused(t, s.post("/v1/orgs/Acme/tenants:derive", `{"issuer":"a","subject":"b"}`), 400, messages.CodeInvalidID)
	require.NoDirExists(t, filepath.Join(sh.root, "a", "orgs"))
	require.NotContains(t, s.log.String(), subject)
	require.NotContains(t, s.log.String(), "idp.example")
}

func TestOperations_HealthMetricsDocument(t *testing.T) {
	s := newShared(t).start(t, "a")
	require.JSONEq(t, `{"status":"ok"}`, string(s.get("/healthz").body))
	require.JSONEq(t, `{"status":"ready"}`, string(s.get("/readyz").body))
	require.Equal(t, string(api.OpenAPI), string(s.get("/openapi.yaml").body))
	s.get(tenantPath(tenantOne) + "/events")
	shown := string(s.get("/metrics").body)
	require.Contains(t, shown, `leasehold_http_requests_total{route="/v1/orgs/{org}/tenants/{tenant}/events",status="404"} 1`)
	require.NotContains(t, shown, tenantOne)
}

func TestRoutes_UnknownPathsAndMethods(t *testing.T) {
	s := newShared(t).start(t, "a")
	refused(t, s.get("/"), 404, messages.CodeNotFound)
	refused(t, s.get("/v2/tenants"), 404, messages.CodeNotFound)
	for path, allow := range map[string]string{"/v1/tenants": "GET", tenantPath(tenantOne) + "/query": "POST", tenantPath(tenantOne) + "/events": "GET, POST"} {
		a := s.do(http.MethodDelete, path, "")
		refused(t, a, 405, messages.CodeNotFound)
		require.Equal(t, allow, a.header.Get("Allow"))
	}
}
