package client_test

import (
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
)

// startPair starts two real servers of one cluster, without JetStream.
func startPair(t *testing.T) (one, other *server.Server) {
	t.Helper()
	start := func(routes ...*url.URL) *server.Server {
		s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, Routes: routes,
			Cluster: server.ClusterOpts{Name: "pair", Host: "127.0.0.1", Port: -1, NoAdvertise: true}})
		require.NoError(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		require.True(t, s.ReadyForConnections(10*time.Second))
		return s
	}
	one = start()
	other = start(&url.URL{Scheme: "nats", Host: one.ClusterAddr().String()})
	return one, other
}

func urlOf(s *server.Server) string { return "nats://" + s.Addr().(*net.TCPAddr).String() }

// The server of the owner ends with a request in flight. The client is connected to another server and is told nothing: not
// that the connection broke, nor that nobody listens. The question finds the next owner.
func TestNATS_TheOwnersServerEndsWithARequestInFlight(t *testing.T) {
	one, other := startPair(t)
	got := make(chan *messages.Request, 100)
	member(t, urlOf(other), nodeA, func(msg *nats.Msg, _ string, req *messages.Request) {
		if got <- req; req.Action == messages.ActionQuery {
			respond(msg, &messages.Reply{Owner: nodeA, Epoch: 1, Result: &messages.Result{}})
		}
	})
	var owner atomic.Value
	owner.Store(nodeA)
	ended := make(chan struct{})
	subjects, err := client.NewSubjects("blue")
	require.NoError(t, err)
	conn := connect(t, natsconn.Config{URL: urlOf(one)})
	_, err = conn.QueueSubscribe(subjects.AnyRequest(), client.RequestQueue, func(msg *nats.Msg) {
		respond(msg, &messages.Reply{Owner: owner.Load().(string)})
	})
	require.NoError(t, err)
	_, err = conn.Subscribe(subjects.Request(nodeB), func(msg *nats.Msg) {
		<-ended
		respond(msg, &messages.Reply{Owner: nodeB, Epoch: 2, Seq: 1, Appended: []messages.Appended{{Seq: 1}}})
	})
	require.NoError(t, err)
	require.NoError(t, conn.FlushTimeout(10*time.Second))

	// Only the hedge can help before the deadline.
	app := connect(t, natsconn.Config{URL: urlOf(one)})
	c := newClient(t, transport(t, app), client.Config{AttemptTimeout: time.Hour, LocateTimeout: 5 * time.Second, HedgeAfter: hedgeAfter})
	require.Nil(t, c.Do(t.Context(), &read).Error) // also when the servers need a moment to know of each other's subscriptions
	require.Equal(t, messages.ActionQuery, (<-got).Action)
	owner.Store(nodeB)
	answered := make(chan *messages.Reply, 1)
	go func() { answered <- c.Do(t.Context(), &once) }()
	for (<-got).Action != messages.ActionAppend { // a hedge of the query
	}
	other.Shutdown()
	other.WaitForShutdown()
	close(ended)
	reply := <-answered
	require.Nil(t, reply.Error)
	require.Equal(t, nodeB, reply.Owner)
	require.True(t, app.IsConnected())
	require.Zero(t, app.Stats().Reconnects, "the client's own connection was not concerned")
}
