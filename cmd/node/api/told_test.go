package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// What a command tells its caller arrives as it is, by every way; its work is rolled back, and its key may be used again.
func TestQ7_AnApplicationErrorTravels(t *testing.T) {
	told := &messages.ApplicationError{Code: "sold_out", Message: "no rooms <left>", Details: json.RawMessage(`{"left":0}`)}
	nodes := startClusterWith(t, func(c *setup) {
		c.node.Commands = map[string]ledgeractor.Command{"book": func(ctx context.Context, tx *ledgeractor.Tx, _ json.RawMessage) (any, error) {
			if _, err := tx.Append(ctx, messages.Event{Kind: "tried"}); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("book: %w", told)
		}}
	}, "a", "b")
	path := tenantPath(tenantOne)
	for _, s := range nodes {
		for range 2 {
			for _, a := range []answer{s.post(path+"/commands/book", `{}`), s.post(path+"/commands/book", `{}`, header(api.IdempotencyHeader, "k"))} {
				require.Equal(t, told, refused(t, a, 422, messages.CodeCommandFailed).Application)
			}
		}
		remote, err := s.member.Tenant("acme", tenantOne)
		require.NoError(t, err)
		_, _, err = remote.CallOnce(t.Context(), "book", "k", nil)
		require.ErrorIs(t, err, messages.ErrCommandFailed)
		var app *messages.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, told, app)
		require.Empty(t, into[page](t, s.get(path+"/events"), 200).Events)
		require.NotContains(t, s.log.String(), "no rooms")
	}
}

// Broken UTF-8 makes no key the same as another one: it is refused by every way in.
func TestQ4_BrokenTextIsRefused(t *testing.T) {
	nodes := startCluster(t, "a")
	s, path := nodes[0], tenantPath(tenantOne)
	require.Equal(t, 200, s.post(path+"/events", `{"kind":"a"}`).status)
	remote, err := s.member.Tenant("acme", tenantOne)
	require.NoError(t, err)
	local, err := s.node.Tenant(t.Context(), "acme", tenantOne)
	require.NoError(t, err)
	subjects, err := client.NewSubjects("")
	require.NoError(t, err)
	for _, bad := range []string{"\xff", "\xfe", "\xed\xa0\x80", "a\x00"} {
		for _, e := range []messages.Event{{Kind: bad}, {Kind: "b", SubjectID: bad}, {Kind: "b", Actor: bad}, {Kind: "b", RunID: bad}, {Kind: "b", IdemKey: bad}, {Kind: "b", Payload: []byte(`"` + bad + `"`)}} {
			_, err := remote.Append(t.Context(), e)
			require.ErrorIs(t, err, messages.ErrInvalidArgument, "%q", bad)
			_, err = local.Append(t.Context(), e)
			require.ErrorIs(t, err, messages.ErrInvalidArgument, "%q", bad)
		}
		for _, call := range []struct{ name, key, in string }{{"echo", bad, "1"}, {bad, "k", "1"}, {"echo", "k", `"` + bad + `"`}} {
			_, _, err := remote.CallOnce(t.Context(), call.name, call.key, json.RawMessage(call.in))
			require.ErrorIs(t, err, messages.ErrInvalidArgument, "%q", bad)
		}
		refused(t, s.post(path+"/events", `{"kind":"b"}`, func(r *http.Request) { r.Header[api.IdempotencyHeader] = []string{"k\xff"} }), 400, messages.CodeInvalidArgument)
	}
	for _, key := range []string{"\xff", "\xfe", `\ud800`, `\udfff`, `\u0000`} {
		request := fmt.Sprintf(`{"v":1,"action":"append","key":{"org":"acme","tenant":"%s"},"timeout_ms":5000,"events":[{"kind":"b","idem_key":"%s"}]}`, tenantOne, key)
		msg, err := s.nats.RequestWithContext(t.Context(), subjects.Request(s.node.Owner()), []byte(request))
		require.NoError(t, err)
		var reply messages.Reply
		require.NoError(t, json.Unmarshal(msg.Data, &reply))
		require.NotNil(t, reply.Error, key)
		require.Equal(t, messages.CodeInvalidArgument, reply.Error.Code, key)
	}
	require.Len(t, into[page](t, s.get(path+"/events"), 200).Events, 1)
}

// A body that comes too slowly is told so: nobody gave up.
func TestQ7_ASlowBodyIsTold(t *testing.T) {
	s := newShared(t).start(t, "a")
	ts := httptest.NewUnstartedServer(s.server)
	ts.Config.ReadTimeout = 200 * time.Millisecond
	ts.Start()
	defer ts.Close()
	conn, err := net.Dial("tcp", ts.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST %s/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"kind\":", tenantPath(tenantOne))
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 408, response.StatusCode)
	e := &messages.Error{}
	require.NoError(t, json.NewDecoder(response.Body).Decode(e))
	require.Equal(t, messages.CodeDeadlineExceeded, e.Code)
}
