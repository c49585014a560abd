package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/messages"
)

// scripted is the other end of a forwarded request: it keeps what it was asked, and says what it was told to.
type scripted struct {
	mu    sync.Mutex
	asked []*messages.Request
	left  time.Duration // until the deadline of the newest request
	say   func(*messages.Request) *messages.Reply
}

func (d *scripted) Do(ctx context.Context, req *messages.Request) *messages.Reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, req)
	d.left = 0
	if deadline, ok := ctx.Deadline(); ok {
		d.left = time.Until(deadline)
	}
	return d.say(req)
}

func (d *scripted) answer(reply messages.Reply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.say = func(*messages.Request) *messages.Reply { return &reply }
}

// last returns the newest request, and how many there were.
func (d *scripted) last() (*messages.Request, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.asked) == 0 {
		return nil, 0
	}
	return d.asked[len(d.asked)-1], len(d.asked)
}

func forwarding(t *testing.T) (*service, *scripted) {
	t.Helper()
	d := &scripted{}
	return newShared(t).start(t, "a", func(c *setup) { c.api.Tenants = d }), d
}

// Every operation on a tenant is one request, with everything that came over HTTP, and its answer is the reply's.
func TestForward_EveryOperationIsOneRequest(t *testing.T) {
	s, d := forwarding(t)
	path := tenantPath(tenantOne)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	manifest := messages.Manifest{Kind: messages.KindManifest, Version: 1, Key: "acme/" + tenantOne, Epoch: 3, Snapshot: 2, Size: 1, SHA256: strings.Repeat("a", 64), LastSeq: 17, Time: at}
	written, err := json.Marshal(manifest)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		method, path, body string
		change             []func(*http.Request)
		want               messages.Request
		reply              messages.Reply
		status             int
		answer             string
	}{
		"append one": {
			method: http.MethodPost, path: "/events", body: `{"kind":"a","actor":"x","payload":{"n":1},"time":"2026-01-02T03:04:05Z"}`,
			change: []func(*http.Request){header(api.IdempotencyHeader, "k")},
			want:   messages.Request{Action: messages.ActionAppend, Events: []messages.Event{{Kind: "a", Actor: "x", IdemKey: "k", Payload: json.RawMessage(`{"n":1}`), Time: &at}}},
			reply:  messages.Reply{Appended: []messages.Appended{{Seq: 17, Duplicate: true}}},
			status: 200, answer: `{"epoch":3,"events":[{"seq":17,"duplicate":true}]}`,
		},
		"append many": {
			method: http.MethodPost, path: "/events", body: `{"events":[{"kind":"a"},{"kind":"b","idem_key":"k"}]}`,
			want:   messages.Request{Action: messages.ActionAppend, Events: []messages.Event{{Kind: "a"}, {Kind: "b", IdemKey: "k"}}},
			reply:  messages.Reply{Appended: []messages.Appended{{Seq: 16}, {Seq: 17}}},
			status: 200, answer: `{"epoch":3,"events":[{"seq":16},{"seq":17}]}`,
		},
		"read": {
			method: http.MethodGet, path: "/events?after=15&limit=2",
			want:   messages.Request{Action: messages.ActionEvents, After: 15, Limit: 2},
			reply:  messages.Reply{Events: []messages.StoredEvent{{Seq: 16, Event: messages.Event{Kind: "a", Payload: json.RawMessage("{}"), Time: &at}}}, More: true},
			status: 200, answer: `{"events":[{"seq":16,"kind":"a","payload":{},"time":"2026-01-02T03:04:05Z"}],"more":true,"next":16}`,
		},
		"read past the end": {
			method: http.MethodGet, path: "/events?after=99",
			want: messages.Request{Action: messages.ActionEvents, After: 99, Limit: 100}, status: 200, answer: `{"events":[],"more":false,"next":99}`,
		},
		"query": {
			method: http.MethodPost, path: "/query", body: `{"sql":"SELECT ?","args":[9007199254740993, {"base64":"AAE="}, null]}`,
			want:   messages.Request{Action: messages.ActionQuery, SQL: "SELECT ?", Args: []json.RawMessage{json.RawMessage("9007199254740993"), json.RawMessage(`{"base64":"AAE="}`), json.RawMessage("null")}},
			reply:  messages.Reply{Result: &messages.Result{Columns: []string{"x"}, Rows: [][]any{{int64(9007199254740993)}}, Truncated: true}},
			status: 200, answer: `{"columns":["x"],"rows":[[9007199254740993]],"truncated":true}`,
		},
		"query without rows": {
			method: http.MethodPost, path: "/query", body: `{"sql":"SELECT 1"}`,
			want: messages.Request{Action: messages.ActionQuery, SQL: "SELECT 1"}, reply: messages.Reply{Result: &messages.Result{}}, status: 200, answer: `{"columns":[],"rows":[]}`,
		},
		"command": {
			method: http.MethodPost, path: "/commands/book", body: ` { "x" : [1, 2] } `, change: []func(*http.Request){header(api.IdempotencyHeader, "k")},
			want:   messages.Request{Action: messages.ActionCall, Command: "book", IdemKey: "k", Input: json.RawMessage(`{ "x" : [1, 2] }`)},
			reply:  messages.Reply{Output: json.RawMessage(`{"ok":true}`), Duplicate: true},
			status: 200, answer: `{"epoch":3,"output":{"ok":true},"duplicate":true}`,
		},
		"command without output": {
			method: http.MethodPost, path: "/commands/book", body: `null`,
			want: messages.Request{Action: messages.ActionCall, Command: "book", Input: json.RawMessage("null")}, status: 200, answer: `{"epoch":3,"output":null}`,
		},
		"snapshot": {
			method: http.MethodPost, path: "/snapshot", body: `{}`,
			want: messages.Request{Action: messages.ActionSnapshot}, reply: messages.Reply{Manifest: &manifest}, status: 200, answer: string(written),
		},
		"handoff": {method: http.MethodPost, path: "/handoff", want: messages.Request{Action: messages.ActionHandoff}, status: 204},
		"abandon": {method: http.MethodPost, path: "/abandon", body: `{}`, want: messages.Request{Action: messages.ActionAbandon}, status: 204},
		"forget":  {method: http.MethodPost, path: "/forget", want: messages.Request{Action: messages.ActionForget}, status: 204},
	} {
		t.Run(name, func(t *testing.T) {
			_, before := d.last()
			c.reply.Owner, c.reply.Epoch, c.reply.Seq = "b#1", 3, 17
			d.answer(c.reply)
			got := s.do(c.method, path+c.path, c.body, append(c.change, header(api.SeenHeader, "2/9"))...)
			require.Equal(t, c.status, got.status, "%s", got.body)
			if c.answer == "" {
				require.Empty(t, got.body)
			} else {
				require.JSONEq(t, c.answer, string(got.body))
			}
			require.Equal(t, []string{"3", "17", "b#1"}, state(got))
			asked, count := d.last()
			require.Equal(t, before+1, count)
			c.want.Version, c.want.Seen = messages.WireVersion, messages.Seen{Epoch: 2, Seq: 9}
			c.want.Key = messages.Key{Org: "acme", Tenant: tenantOne}
			require.Equal(t, &c.want, asked)
		})
	}
	require.NoDirExists(t, s.root+"/a/orgs")
	require.JSONEq(t, `{"owner":"`+s.node.Owner()+`","tenants":[]}`, string(s.get("/v1/tenants").body), "nothing was done on this node")
}

// state are the headers that say where an answer comes from.
func state(a answer) []string {
	return []string{a.header.Get(api.EpochHeader), a.header.Get(api.SeqHeader), a.header.Get(api.OwnerHeader)}
}

// An error of the owner is the answer, whole, with the status of its code and the state that it comes from. What the
// lease store says is not added: whoever forwards has looked there.
func TestForward_ErrorsOfTheOwnerArePassedOn(t *testing.T) {
	sh, d := newShared(t), &scripted{}
	into[appended](t, sh.start(t, "z").post(tenantPath(tenantOne)+"/events", `{"kind":"a"}`), 200)
	s := sh.start(t, "a", func(c *setup) { c.api.Tenants = d })
	key := "acme/" + tenantOne
	for _, e := range []messages.Error{
		{Code: messages.CodeHistoryLost, Key: key, Epoch: 4, Message: "lost"},
		{Code: messages.CodeDraining, Key: key, Owner: "c#2", Epoch: 4, RetryAfter: 1500 * time.Millisecond},
		{Code: messages.CodeUnknownOutcome, Cause: messages.CodeUnavailable, Key: key},
		{Code: messages.CodeNotOwner, Key: key, Owner: "c#2", Epoch: 5},
		{Code: messages.CodeNotOwner, Key: key, Message: "nobody could be reached"},
		{Code: messages.CodeNotFound, Key: key},
		{Code: messages.CodeOverloaded, RetryAfter: 100 * time.Millisecond},
	} {
		t.Run(string(e.Code), func(t *testing.T) {
			d.answer(messages.Reply{Owner: "b#1", Epoch: 4, Seq: 2, Error: &e})
			for _, got := range []answer{s.post(tenantPath(tenantOne)+"/events", `{"kind":"a"}`), s.get(tenantPath(tenantOne) + "/events"), s.post(tenantPath(tenantOne)+"/handoff", "")} {
				require.Equal(t, &e, refused(t, got, api.Status(e.Code), e.Code))
				require.Equal(t, []string{"4", "2", "b#1"}, state(got))
			}
		})
	}
	require.Equal(t, 409, api.Status(messages.CodeHistoryLost))
	d.answer(messages.Reply{Error: &messages.Error{Code: messages.CodeDraining, RetryAfter: 1500 * time.Millisecond}})
	require.Equal(t, "2", s.get(tenantPath(tenantOne)+"/events").header.Get("Retry-After"))
}

// A state that nobody vouches for has no headers; an owner id that a header cannot carry is left out.
func TestForward_StateHeadersAreThereWhenTheyAreKnown(t *testing.T) {
	s, d := forwarding(t)
	for _, c := range []struct {
		reply messages.Reply
		want  []string
	}{
		{messages.Reply{Owner: "b#1", Error: &messages.Error{Code: messages.CodeUnavailable}}, []string{"", "", ""}},
		{messages.Reply{Owner: "b#1", Epoch: 1}, []string{"1", "", "b#1"}},
		{messages.Reply{Owner: "bücher#1", Epoch: 1, Seq: 1}, []string{"1", "1", ""}},
		{messages.Reply{Owner: "a b~!#1", Epoch: 1<<63 - 1, Seq: 1<<63 - 1}, []string{"9223372036854775807", "9223372036854775807", "a b~!#1"}},
	} {
		d.answer(c.reply)
		require.Equal(t, c.want, state(s.post(tenantPath(tenantOne)+"/abandon", "")))
	}
}

// The deadline of the HTTP request is the deadline of the context; the clock of the wire is the Doer's.
func TestForward_TheDeadlineIsTheContexts(t *testing.T) {
	s, d := forwarding(t)
	d.answer(messages.Reply{Epoch: 1})
	for timeout, most := range map[string]time.Duration{"": 30 * time.Second, "7s": 7 * time.Second, "24h": 5 * time.Minute} {
		var change []func(*http.Request)
		if timeout != "" {
			change = append(change, header(api.TimeoutHeader, timeout))
		}
		begun := time.Now()
		require.Equal(t, 204, s.post(tenantPath(tenantOne)+"/handoff", "", change...).status)
		took := time.Since(begun)
		asked, _ := d.last()
		require.Zero(t, asked.TimeoutMS)
		require.LessOrEqual(t, d.left, most)
		require.GreaterOrEqual(t, d.left, most-took)
	}
}

// What is refused here does not travel.
func TestForward_BadRequestsAreRefusedHere(t *testing.T) {
	s, d := forwarding(t)
	path, long := tenantPath(tenantOne), strings.Repeat("k", 257)
	for _, bad := range []answer{
		s.post(path+"/events", `{"kind":""}`), s.post(path+"/events", `{"kind":"a","x":1}`), s.get(path + "/events?after=-1"), s.post(path+"/query", `{"sql":""}`),
		s.post(path+"/query", `{"sql":"SELECT ?","args":[[1]]}`), s.post(path+"/query", `{"sql":"SELECT ?","args":[1e999]}`), s.post(path+"/snapshot", `{"x":1}`),
		s.post(path+"/commands/x", `{`), s.post(path+"/commands/x", `{}`, header(api.IdempotencyHeader, "")), s.post(path+"/commands/x", `{}`, header(api.IdempotencyHeader, "a\xff")),
		s.post(path+"/commands/x", `{}`, header(api.IdempotencyHeader, "a"), header(api.IdempotencyHeader, "a")),
	} {
		refused(t, bad, 400, messages.CodeInvalidArgument)
	}
	refused(t, s.post(path+"/commands/x", `{}`, header(api.IdempotencyHeader, long)), 413, messages.CodeTooLarge)
	for _, value := range []string{"", "/", "1", "1/", "/1", "0/0", "0/1", "-1/1", "1/-1", "+1/1", "1/+1", "01/1", "1/01", "1/1/1", "1/1 x", "1 /1", "a/b", "0x1/1", "1.0/1",
		"18446744073709551616/1", "1/9223372036854775808", "1/1,1/1", "1/\u0661"} {
		for _, got := range []answer{s.do(http.MethodGet, path+"/events", "", header(api.SeenHeader, value)), s.post(path+"/forget", "", header(api.SeenHeader, value))} {
			require.Contains(t, refused(t, got, 400, messages.CodeInvalidArgument).Message, api.SeenHeader, "%q", value)
		}
	}
	refused(t, s.do(http.MethodGet, path+"/events", "", header(api.SeenHeader, "1/1"), header(api.SeenHeader, "1/1")), 400, messages.CodeInvalidArgument)
	_, count := d.last()
	require.Zero(t, count)
	d.answer(messages.Reply{Epoch: 1})
	require.Equal(t, 200, s.do(http.MethodGet, path+"/events", "", header(api.SeenHeader, "18446744073709551615/9223372036854775807")).status)
	asked, _ := d.last()
	require.Equal(t, messages.Seen{Epoch: 1<<64 - 1, Seq: 1<<63 - 1}, asked.Seen)
}

// A reply without what was asked for is an error, and an unknown outcome unless it only reads.
func TestForward_RepliesThatAreNotComplete(t *testing.T) {
	s, d := forwarding(t)
	path := tenantPath(tenantOne)
	d.answer(messages.Reply{Owner: "b#1", Epoch: 1, Appended: []messages.Appended{{Seq: 1}}})
	refused(t, s.post(path+"/events", `{"events":[{"kind":"a"},{"kind":"b"}]}`), 504, messages.CodeUnknownOutcome)
	refused(t, s.post(path+"/query", `{"sql":"SELECT 1"}`), 500, messages.CodeInternal)
	refused(t, s.post(path+"/snapshot", ``), 504, messages.CodeUnknownOutcome)
}

// What the daemon hangs in: who is in the cluster, and whether the node is ready to be asked.
func TestCluster_MembersAndReady(t *testing.T) {
	alone := newShared(t).start(t, "a")
	require.Equal(t, "this node is in no cluster", refused(t, alone.get("/v1/members"), 404, messages.CodeNotFound).Message)
	refused(t, alone.get("/v1/members?x=1"), 400, messages.CodeInvalidArgument)

	type member struct{ Owner string }
	var why error
	s := newShared(t).start(t, "a", func(c *setup) {
		c.api.Members = func() any { return []member{{"a#1"}, {"b#1"}} }
		c.api.Ready = func() error { return why }
	})
	require.JSONEq(t, `[{"Owner":"a#1"},{"Owner":"b#1"}]`, string(s.get("/v1/members").body))
	require.Equal(t, 200, s.get("/readyz").status)
	why = errors.New("not a member yet")
	e := refused(t, s.get("/readyz"), 503, messages.CodeUnavailable)
	require.Equal(t, messages.CodeInternal, e.Cause)
	require.NotContains(t, e.Message, "member")
	why = &messages.Error{Code: messages.CodeUnavailable, Message: "no member sees this node"}
	require.Equal(t, "no member sees this node", refused(t, s.get("/readyz"), 503, messages.CodeUnavailable).Message)
	why = &messages.Error{Code: messages.CodeNotFound}
	refused(t, s.get("/readyz"), 503, messages.CodeUnavailable)
	why = nil
	s.server.Drain()
	refused(t, s.get("/readyz"), 503, messages.CodeDraining)
	require.Equal(t, 200, s.get("/v1/members").status)
}
