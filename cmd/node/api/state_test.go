package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/messages"
)

// Every answer names its state, and a client that sends it back is not answered from an older one.
func TestSeen_NobodyGoesBackwards(t *testing.T) {
	sh := newShared(t)
	s := sh.start(t, "a")
	path, owner := tenantPath(tenantOne), s.node.Owner()
	from := func(seen string) answer {
		return s.do(http.MethodGet, path+"/events", "", header(api.SeenHeader, seen))
	}
	require.Equal(t, []string{"", "", ""}, state(s.get(path+"/events")))
	require.Equal(t, []string{"1", "1", owner}, state(s.post(path+"/events", `{"kind":"a"}`)))
	require.Equal(t, []string{"1", "1", owner}, state(s.post(path+"/snapshot", "")))
	require.Equal(t, []string{"1", "2", owner}, state(s.post(path+"/commands/record", `{}`)))
	require.Equal(t, []string{"1", "2", owner}, state(s.post(path+"/query", `{"sql":"SELECT 1"}`)))
	require.Equal(t, []string{"1", "", owner}, state(s.get(path)))
	failed := s.post(path+"/commands/fail", `{}`)
	refused(t, failed, 422, messages.CodeCommandFailed)
	require.Equal(t, []string{"1", "2", owner}, state(failed))
	require.Equal(t, 200, from("1/2").status)

	// H4: the abandon takes the second event, and whoever has seen it is told.
	require.Equal(t, []string{"1", "", owner}, state(s.post(path+"/abandon", "")))
	lost := from("1/2")
	e := refused(t, lost, 409, messages.CodeHistoryLost)
	require.EqualValues(t, 2, e.Epoch)
	require.Equal(t, []string{"2", "1", owner}, state(lost))
	refused(t, s.post(path+"/events", `{"kind":"b"}`, header(api.SeenHeader, "1/2")), 409, messages.CodeHistoryLost)
	require.Len(t, into[page](t, from("1/1"), 200).Events, 1, "nothing was done for those who were refused")
	// There never was such an epoch: nobody can wait for it.
	refused(t, from("3/1"), 409, messages.CodeHistoryLost)

	require.Equal(t, 204, s.post(path+"/handoff", "").status)
	require.Equal(t, 200, from("2/1").status)
	require.Equal(t, 204, s.post(path+"/forget", "").status)
	refused(t, from("3/1"), 404, messages.CodeUnknownTenant)
	refused(t, s.post(path+"/events", `{"kind":"c"}`, header(api.SeenHeader, "3/1")), 409, messages.CodeHistoryLost)
	require.Empty(t, into[page](t, s.get(path+"/events"), 200).Events)

	// An epoch that there is, and that this node does not know of yet: it says who has it.
	lease, _, err := sh.leases.Read(t.Context(), messages.Key{Org: "acme", Tenant: tenantOne})
	require.NoError(t, err)
	require.NoError(t, sh.leases.Release(t.Context(), lease.Key, owner, lease.Epoch))
	lease, err = sh.leases.Acquire(t.Context(), lease.Key, "other#1", time.Minute)
	require.NoError(t, err)
	e = refused(t, from(fmt.Sprintf("%d/1", lease.Epoch)), 421, messages.CodeNotOwner)
	require.Equal(t, "other#1", e.Owner)
}

// H6: a tenant that is open nowhere can be forgotten; one that another node holds cannot be forgotten here.
func TestH6_ForgetOfATenantThatIsNotOpen(t *testing.T) {
	sh := newShared(t)
	s := sh.start(t, "a")
	path := tenantPath(tenantOne)
	into[appended](t, s.post(path+"/events", `{"kind":"a"}`), 200)
	require.Equal(t, 204, s.post(path+"/handoff", "").status)
	names, err := sh.durable.List(t.Context(), "acme/"+tenantOne+"/")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	require.Equal(t, 204, s.post(path+"/forget", "").status)
	names, err = sh.durable.List(t.Context(), "acme/"+tenantOne+"/")
	require.NoError(t, err)
	require.Equal(t, []string{"acme/" + tenantOne + "/floor-00000002.json"}, names, "what a reseed needs, and nothing else")
	refused(t, s.get(path), 404, messages.CodeUnknownTenant)
	refused(t, s.post(path+"/forget", ""), 404, messages.CodeUnknownTenant)

	other := sh.start(t, "b")
	into[appended](t, other.post(path+"/events", `{"kind":"a"}`), 200)
	require.Equal(t, other.node.Owner(), refused(t, s.post(path+"/forget", ""), 409, messages.CodeHeld).Owner)
	require.Len(t, into[page](t, other.get(path+"/events"), 200).Events, 1)
}

// wire carries requests to another node as they would travel: as JSON, there and back.
type wire struct {
	t    *testing.T
	node *actors.Node
}

func (w wire) Do(ctx context.Context, req *messages.Request) *messages.Reply {
	var there messages.Request
	w.copy(req, &there)
	var back messages.Reply
	w.copy(w.node.Do(ctx, &there), &back)
	return &back
}

func (w wire) copy(from, to any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // it would change payloads and inputs
	if err := e.Encode(from); err != nil {
		w.t.Errorf("%T does not travel: %v", from, err)
		return
	}
	d := json.NewDecoder(&text)
	d.UseNumber() // a float64 does not hold every integer of a result
	if err := d.Decode(to); err != nil {
		w.t.Errorf("%T does not arrive: %v", from, err)
	}
}

// A client cannot tell whether the node that it asks is the owner.
func TestForward_AnswersAreTheOwners(t *testing.T) {
	sh := newShared(t)
	owner := sh.start(t, "owner")
	far := sh.start(t, "far", func(c *setup) { c.api.Tenants = wire{t, owner.node} })
	normal := func(a answer, id string) string {
		return fmt.Sprintln(a.status, state(a), string(bytes.ReplaceAll(a.body, []byte(id), []byte("ID"))))
	}
	var answers [2][]string
	for i, s := range []*service{owner, far} {
		id := []string{tenantOne, tenantTwo}[i]
		path := tenantPath(id)
		for _, a := range []answer{
			s.post(path+"/handoff", ""),
			s.post(path+"/events", `{"kind":"a","payload":{"s":"<ü>&\ud83d\ude00"},"time":"2026-01-02T03:04:05.000000006Z"}`),
			s.post(path+"/events", `{"events":[{"kind":"b","idem_key":"k","time":"2026-01-02T03:04:05Z"},{"kind":"b","idem_key":"k"}]}`),
			s.post(path+"/events", `{"kind":"c","time":"2026-01-02T03:04:05+01:00"}`, header(api.IdempotencyHeader, "k")),
			s.post(path+"/query", `{"sql":"SELECT ? a, ? b, ? c, ? d, ? e, x'0001' f, typeof(?1), 1e300","args":[9007199254740993, 1.5, "ü", null, {"base64":"AAE="}]}`),
			s.post(path+"/query", `{"sql":"SELECT ts, payload FROM events WHERE seq = 1"}`),
			s.post(path+"/query", `{"sql":"DELETE FROM events"}`),
			s.post(path+"/query", `{"sql":"SELEC 1"}`),
			s.post(path+"/commands/record", ` { "n" : 1.0 } `, header(api.IdempotencyHeader, "once")),
			s.post(path+"/commands/record", `{"n":1.0}`, header(api.IdempotencyHeader, "once")),
			s.post(path+"/commands/echo", `[null, 1e400, "x"]`),
			s.post(path+"/commands/echo", `null`),
			s.post(path+"/commands/fail", `{}`),
			s.post(path+"/commands/panic", `{}`),
			s.post(path+"/commands/absent", `{}`),
			s.do(http.MethodGet, path+"/events?after=1&limit=1", "", header(api.SeenHeader, "1/2")),
			s.do(http.MethodGet, path+"/events", "", header(api.SeenHeader, "1/999")),
			s.post(path+"/abandon", ""),
			s.do(http.MethodGet, path+"/events", "", header(api.SeenHeader, "1/2")),
			s.post(path+"/forget", ""),
			s.get(path + "/events"),
		} {
			answers[i] = append(answers[i], normal(a, id))
		}
	}
	require.Equal(t, answers[0], answers[1])
	require.JSONEq(t, `{"owner":"`+far.node.Owner()+`","tenants":[]}`, string(far.get("/v1/tenants").body))
	require.Len(t, answers[0], 21)
}
