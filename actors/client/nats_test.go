package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

// startNATS starts a real server; port 0: a free one.
func startNATS(t *testing.T, port int, configure func(*server.Options)) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(t.Context(), natsserver.Config{Dir: t.TempDir(), Port: port, NoSync: true, Configure: func(o *server.Options) {
		o.NoSystemAccount = true
		if configure != nil {
			configure(o)
		}
	}})
	require.NoError(t, err)
	t.Cleanup(s.Shutdown)
	return s
}

func connect(t *testing.T, cfg natsconn.Config) *nats.Conn {
	t.Helper()
	conn, err := cfg.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func transport(t *testing.T, conn *nats.Conn) client.Transport {
	t.Helper()
	tr, err := client.NewNATS(conn, "blue")
	require.NoError(t, err)
	return tr
}

func dial(t *testing.T, cfg client.NATSConfig) *client.Client {
	t.Helper()
	cfg.Cluster = "blue"
	c, err := client.Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// member serves the subjects of a member the way one does, with what answer makes of a request.
func member(t *testing.T, url, owner string, answer func(msg *nats.Msg, target string, req *messages.Request), options ...nats.Option) {
	t.Helper()
	conn := connect(t, natsconn.Config{URL: url, Options: options})
	subjects, err := client.NewSubjects("blue")
	require.NoError(t, err)
	on := func(target string) nats.MsgHandler {
		return func(msg *nats.Msg) {
			req := &messages.Request{}
			if json.Unmarshal(msg.Data, req) == nil {
				answer(msg, target, req)
			}
		}
	}
	_, err = conn.QueueSubscribe(subjects.AnyRequest(), client.RequestQueue, func(msg *nats.Msg) {
		respond(msg, &messages.Reply{Owner: owner}) // who should be asked
	})
	require.NoError(t, err)
	_, err = conn.Subscribe(subjects.Request(owner), on(owner))
	require.NoError(t, err)
	require.NoError(t, conn.FlushTimeout(10*time.Second))
}

func respond(msg *nats.Msg, reply *messages.Reply) {
	data, err := json.Marshal(reply)
	if err == nil {
		_ = msg.Respond(data)
	}
}

// The requests arrive as they were sent, at any member and at one; the answers come back exact.
func TestNATS_ThereAndBack(t *testing.T) {
	s := startNATS(t, 0, nil)
	var mu sync.Mutex
	var targets []string
	var last messages.Request
	member(t, s.URL(), nodeA, func(msg *nats.Msg, target string, req *messages.Request) {
		mu.Lock()
		targets, last = append(targets, target), *req
		mu.Unlock()
		respond(msg, &messages.Reply{Owner: nodeA, Epoch: 1 << 60, Seq: 1<<53 + 1, Result: &messages.Result{Columns: []string{"a"},
			Rows: [][]any{{int64(1<<53 + 1), int64(-1 << 63), 0.5, 1e300, "1", 100.0, nil, []byte{1}}}}})
	})
	c := dial(t, client.NATSConfig{Config: natsconn.Config{URL: s.URL()}})
	tenant, err := c.Tenant(tenantKey.Org, tenantKey.Tenant)
	require.NoError(t, err)
	for range 2 {
		result, err := tenant.Query(t.Context(), "SELECT ?", int64(1<<53+1))
		require.NoError(t, err)
		require.Equal(t, [][]any{{int64(1<<53 + 1), int64(-1 << 63), 0.5, 1e300, "1", 100.0, nil, []byte{1}}}, result.Rows)
	}
	require.Equal(t, messages.Seen{Epoch: 1 << 60, Seq: 1<<53 + 1}, tenant.Seen())
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{nodeA, nodeA}, targets)
	require.Equal(t, tenant.Seen(), last.Seen)
	require.Equal(t, "SELECT ?", last.SQL)
	require.Equal(t, tenantKey, last.Key)
	require.Equal(t, messages.WireVersion, last.Version)
	require.Equal(t, []json.RawMessage{[]byte("9007199254740993")}, last.Args)
	require.InDelta(t, 2000, last.TimeoutMS, 1)
}

func TestNATS_NobodyThere(t *testing.T) {
	s := startNATS(t, 0, nil)
	conn := connect(t, natsconn.Config{URL: s.URL()})
	tr := transport(t, conn)
	member(t, s.URL(), nodeA, func(msg *nats.Msg, _ string, _ *messages.Request) { respond(msg, &messages.Reply{Owner: nodeA}) })
	_, err := tr.Send(t.Context(), nodeA, &once)
	require.NoError(t, err)
	_, err = tr.Send(t.Context(), nodeB, &once)
	require.ErrorIs(t, err, client.ErrNotDelivered)
	require.ErrorIs(t, err, nats.ErrNoResponders)

	conn.Close()
	_, err = tr.Send(t.Context(), nodeA, &once)
	require.ErrorIs(t, err, client.ErrNotDelivered, "the connection was closed before")
}

// A connection that breaks while a request is under way ends the request at once, in doubt; while it is broken nothing
// is sent, and nothing is kept for later.
func TestNATS_ABrokenConnection(t *testing.T) {
	s := startNATS(t, 0, nil)
	port := s.NATS().Addr().(*net.TCPAddr).Port
	got := make(chan int64, 100)
	hold := func(_ *nats.Msg, _ string, req *messages.Request) { got <- req.After }
	member(t, s.URL(), nodeA, hold)
	back := make(chan struct{}, 1)
	conn := connect(t, natsconn.Config{URL: s.URL(), Options: []nats.Option{nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} })}})
	tr := transport(t, conn)
	failed := make(chan error, 1)
	send := func(target string, n int64) error {
		req := messages.Request{Action: messages.ActionEvents, Key: tenantKey, After: n}
		_, err := tr.Send(t.Context(), target, &req) // no deadline at all
		return err
	}
	go func() { failed <- send(nodeA, 1) }()
	require.EqualValues(t, 1, <-got)
	s.Shutdown()
	err := <-failed
	require.NotErrorIs(t, err, client.ErrNotDelivered, "the member has it")
	require.ErrorIs(t, err, messages.ErrUnavailable)
	err = send(nodeA, 2)
	require.ErrorIs(t, err, client.ErrNotDelivered)
	require.ErrorIs(t, err, nats.ErrReconnectBufExceeded)

	s = startNATS(t, port, nil)
	<-back
	member(t, s.URL(), nodeB, hold) // the first one comes back too, but when?
	go func() { failed <- send(nodeB, 3) }()
	require.EqualValues(t, 3, <-got, "and not 1 or 2")
	conn.Close()
	err = <-failed
	require.NotErrorIs(t, err, client.ErrNotDelivered, "closed under way: the member has it")
	require.Error(t, err)
	require.Empty(t, got)
}

// The same as the caller sees it: what may be repeated is repeated when the server is back, without anybody's doing.
func TestNATS_TheServerComesBack(t *testing.T) {
	s := startNATS(t, 0, nil)
	port := s.NATS().Addr().(*net.TCPAddr).Port
	got := make(chan *nats.Msg, 100)
	member(t, s.URL(), nodeA, func(msg *nats.Msg, _ string, _ *messages.Request) { got <- msg })
	c := dial(t, client.NATSConfig{Config: natsconn.Config{URL: s.URL()}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answered := make(chan *messages.Reply, 2)
	go func() { answered <- c.Do(ctx, &risky) }()
	<-got
	go func() { answered <- c.Do(ctx, &once) }()
	<-got
	s.Shutdown()
	reply := <-answered
	require.ErrorIs(t, reply.Error, messages.ErrUnknownOutcome, "at once: it must not be repeated")
	require.NoError(t, ctx.Err())
	startNATS(t, port, nil)
	respond(<-got, &messages.Reply{Owner: nodeA, Epoch: 1, Seq: 1, Appended: make([]messages.Appended, 1)})
	require.Nil(t, (<-answered).Error)
}

func TestNATS_TooLarge(t *testing.T) {
	s := startNATS(t, 0, func(o *server.Options) { o.MaxPayload = 8 << 20 })
	got := make(chan struct{}, 10)
	member(t, s.URL(), nodeA, func(msg *nats.Msg, _ string, req *messages.Request) {
		got <- struct{}{}
		respond(msg, &messages.Reply{Owner: nodeA, Epoch: 1, Appended: make([]messages.Appended, len(req.Events))})
	})
	c := dial(t, client.NATSConfig{Config: natsconn.Config{URL: s.URL()}})
	tenant, err := c.Tenant(tenantKey.Org, tenantKey.Tenant)
	require.NoError(t, err)
	event := messages.Event{Kind: "k", Payload: json.RawMessage(`"` + strings.Repeat("x", messages.MaxPayloadBytes-2) + `"`)}
	_, err = tenant.AppendAll(t.Context(), []messages.Event{event, event, event, event, event, event, event, event})
	require.ErrorIs(t, err, messages.ErrTooLarge)
	require.Empty(t, got)
	_, err = tenant.AppendAll(t.Context(), []messages.Event{event, event, event, event, event, event, event})
	require.NoError(t, err, "the connection has survived")
}

// The answer to an attempt that was given up is not taken for that of the next one.
func TestNATS_ALateAnswer(t *testing.T) {
	s := startNATS(t, 0, nil)
	var first *nats.Msg
	member(t, s.URL(), nodeA, func(msg *nats.Msg, _ string, req *messages.Request) {
		if first == nil { // one subscription: one message at a time
			first = msg
			return
		}
		respond(first, &messages.Reply{Owner: nodeA, Epoch: 1, Seq: 1, Appended: []messages.Appended{{Seq: 1}}})
		respond(msg, &messages.Reply{Owner: nodeA, Epoch: 1, Seq: 2, Appended: []messages.Appended{{Seq: 2}}})
	})
	c := dial(t, client.NATSConfig{Config: natsconn.Config{URL: s.URL()}, Client: client.Config{AttemptTimeout: 50 * ms}})
	reply := c.Do(t.Context(), &once)
	require.Nil(t, reply.Error)
	require.EqualValues(t, 2, reply.Seq)
}

func TestNATS_AnswersThatAreNone(t *testing.T) {
	s := startNATS(t, 0, nil)
	var answer []byte
	member(t, s.URL(), nodeA, func(msg *nats.Msg, _ string, _ *messages.Request) { _ = msg.Respond(answer) })
	c := dial(t, client.NATSConfig{Config: natsconn.Config{URL: s.URL()}})
	for _, text := range []string{"x", "null", "{}", `{"owner":"a","epoch":1}x`, `{"error":{}}`, `{"epoch":-1}`, `[]`, `{"owner":"a","epoch":1,"result":{"rows":[[1e999]]}}`} {
		answer = []byte(text)
		e := c.Do(t.Context(), &risky).Error
		require.ErrorIs(t, e, messages.ErrUnknownOutcome, text)
		require.ErrorIs(t, e, messages.ErrInternal, text)
	}
}

// With no more than the permissions that the package comment names, under an inbox prefix of its own.
func TestNATS_PermissionsOfAClient(t *testing.T) {
	s := startNATS(t, 0, func(o *server.Options) {
		o.Users = []*server.User{{Username: "node", Password: "n"}, {Username: "app", Password: "a", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"leasehold.blue.request", "leasehold.blue.request.*"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_APP.>"}},
		}}, {Username: "stranger", Password: "s", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"leasehold.red.>"}},
		}}}
	})
	got := make(chan struct{}, 10)
	member(t, s.URL(), nodeA, func(msg *nats.Msg, _ string, _ *messages.Request) {
		got <- struct{}{}
		respond(msg, &messages.Reply{Owner: nodeA, Epoch: 1, Result: &messages.Result{}})
	}, nats.UserInfo("node", "n"))
	c := dial(t, client.NATSConfig{Config: natsconn.Config{URL: s.URL(), Options: []nats.Option{nats.UserInfo("app", "a"), nats.CustomInboxPrefix("_APP")}}})
	for range 2 { // once by way of any member
		require.Nil(t, c.Do(t.Context(), &read).Error)
		<-got
	}

	var logged lockedBuffer
	c = dial(t, client.NATSConfig{Config: natsconn.Config{URL: s.URL(), Options: []nats.Option{nats.UserInfo("stranger", "s")}},
		Client: client.Config{RequestTimeout: 300 * ms, Log: slog.New(slog.NewTextHandler(&logged, nil))}})
	require.ErrorIs(t, c.Do(t.Context(), &read).Error, messages.ErrDeadlineExceeded)
	require.Empty(t, got)
	require.Contains(t, logged.String(), "Permissions Violation")

	_, err := client.Dial(t.Context(), client.NATSConfig{Config: natsconn.Config{URL: s.URL(), Options: []nats.Option{nats.UserInfo("app", "wrong")}}})
	require.ErrorIs(t, err, messages.ErrUnauthorized)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestDial_RefusesWhatCannotWork(t *testing.T) {
	for name, cfg := range map[string]client.NATSConfig{
		"no URL":      {},
		"a cluster":   {Config: natsconn.Config{URL: "nats://127.0.0.1:1"}, Cluster: "a.b"},
		"the client":  {Config: natsconn.Config{URL: "nats://127.0.0.1:1"}, Client: client.Config{MaxOwners: -1}},
		"credentials": {Config: natsconn.Config{URL: "nats://127.0.0.1:1", CredsFile: "/none"}},
	} {
		_, err := client.Dial(t.Context(), cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, name)
	}
	_, err := client.Dial(t.Context(), client.NATSConfig{Config: natsconn.Config{URL: "nats://127.0.0.1:1"}})
	require.ErrorIs(t, err, messages.ErrUnavailable)

	s := startNATS(t, 0, nil)
	keeps, err := nats.Connect(s.URL())
	require.NoError(t, err)
	defer keeps.Close()
	_, err = client.NewNATS(keeps, "")
	require.ErrorIs(t, err, messages.ErrInvalidArgument, "it would send what nobody waits for any more")
	_, err = client.NewNATS(nil, "")
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	_, err = client.NewNATS(connect(t, natsconn.Config{URL: s.URL()}), "a.b")
	require.ErrorIs(t, err, messages.ErrInvalidArgument)

	c := dial(t, client.NATSConfig{Config: natsconn.Config{URL: s.URL()}})
	require.NoError(t, c.Close())
	require.NoError(t, c.Close(), "twice is fine")
	require.ErrorIs(t, c.Do(t.Context(), &once).Error, messages.ErrClosed)
}
