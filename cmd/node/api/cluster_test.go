package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

// startCluster starts nodes that are members of one cluster, over a real NATS server, each with its API.
func startCluster(t *testing.T, names ...string) []*service {
	t.Helper()
	return startClusterWith(t, func(*setup) {}, names...)
}

func startClusterWith(t *testing.T, change func(*setup), names ...string) []*service {
	t.Helper()
	sh := newShared(t)
	ns, err := natsserver.Start(t.Context(), natsserver.Config{Dir: filepath.Join(sh.root, "nats"), NoSync: true})
	require.NoError(t, err)
	t.Cleanup(ns.Shutdown)
	var all []*service
	for _, name := range names {
		all = append(all, sh.start(t, name, func(c *setup) {
			change(c)
			c.join = func(node *actors.Node) (*cluster.Member, *nats.Conn) {
				conn, err := natsconn.Config{URL: ns.URL()}.Connect(t.Context())
				require.NoError(t, err)
				t.Cleanup(conn.Close)
				// However slow the machine is: no member is given up for it, and nothing is asked twice.
				m, err := cluster.Join(t.Context(), cluster.Config{Node: node, Conn: conn, HeartbeatEvery: 100 * time.Millisecond, DeadAfter: 3 * time.Second,
					LookupTimeout: 10 * time.Second, RebalanceEvery: time.Hour, Client: client.Config{AttemptTimeout: time.Minute, HedgeAfter: -1}, Log: c.api.Log})
				require.NoError(t, err)
				return m, conn
			}
		}))
	}
	for _, s := range all {
		s.until(func() bool { return len(into[[]cluster.Info](t, s.get("/v1/members"), 200)) == len(names) })
	}
	return all
}

func tenantNumber(i int) string { return tenantPath(fmt.Sprintf("t-%032x", i)) }

// In a cluster it makes no difference which node is asked.
func TestCluster_AnyNodeTakesEveryRequest(t *testing.T) {
	nodes := startCluster(t, "a", "b")
	owners := map[string]bool{}
	for i := range 8 {
		path, one, other := tenantNumber(i), nodes[i%2], nodes[(i+1)%2]
		first := one.post(path+"/events", `{"kind":"a","payload":{"text":"ü<>&"}}`, header(api.IdempotencyHeader, "k"))
		require.Equal(t, appended{1, []messages.Appended{{Seq: 1}}}, into[appended](t, first, 200))
		owner := first.header.Get(api.OwnerHeader)
		owners[owner] = true
		// W2: a retry at the other node is the same event; of a command, the same output.
		again := other.post(path+"/events", `{"kind":"a", "payload": {"text":"\u00fc<>&"}}`, header(api.IdempotencyHeader, "k"))
		require.Equal(t, appended{1, []messages.Appended{{Seq: 1, Duplicate: true}}}, into[appended](t, again, 200))
		require.Equal(t, []string{"1", "1", owner}, state(again))
		for _, s := range []*service{one, other} {
			require.Equal(t, []any{int64(9007199254740993), 2.5, "ü<>&", []byte{0, 1}, "blob"}, rows(t, s.post(path+"/query",
				`{"sql":"SELECT ?, ?, ?, ?, typeof(?4)","args":[9007199254740993, 2.5, "ü<>&", {"base64":"AAE="}]}`))[0])
			require.Equal(t, 200, s.do(http.MethodGet, path+"/events", "", header(api.SeenHeader, "1/1")).status)
			refused(t, s.do(http.MethodGet, path+"/events", "", header(api.SeenHeader, "1/9")), 409, messages.CodeHistoryLost)
			refused(t, s.post(path+"/commands/fail", `{}`), 422, messages.CodeCommandFailed)
			require.EqualValues(t, 1, into[messages.Manifest](t, s.post(path+"/snapshot", ""), 200).LastSeq)
			// A look at the tenant is not forwarded.
			require.Equal(t, s.node.Owner() == owner, into[view](t, s.get(path), 200).Open)
		}
		require.Equal(t, 204, other.post(path+"/handoff", "").status)
		refused(t, one.post(path+"/handoff", ""), 404, messages.CodeNotFound)
		require.EqualValues(t, 2, into[appended](t, one.post(path+"/events", `{"kind":"b"}`), 200).Epoch)
		require.Equal(t, 204, other.post(path+"/abandon", "").status)
		require.Len(t, into[page](t, other.get(path+"/events"), 200).Events, 1)
	}
	require.Len(t, owners, 2, "no tenant was owned by the second node: nothing was shown")
}

// H6: whichever node is asked, a tenant is forgotten where it is, and where it is not open at all.
func TestH6_ForgetThroughAnyNode(t *testing.T) {
	nodes := startCluster(t, "a", "b")
	for i := range 4 {
		path := tenantNumber(i)
		into[appended](t, nodes[0].post(path+"/events", `{"kind":"a"}`), 200)
		if i%2 == 0 {
			require.Equal(t, 204, nodes[1].post(path+"/handoff", "").status)
		}
		require.Equal(t, 204, nodes[1].post(path+"/forget", "").status)
		refused(t, nodes[0].get(path+"/events"), 404, messages.CodeUnknownTenant)
	}
}

// T1 over a cluster: many clients of a new tenant at once, at every node, and it is opened once.
func TestT1_ManyClientsAtEveryNodeOpenOnce(t *testing.T) {
	nodes := startCluster(t, "a", "b", "c")
	var wg sync.WaitGroup
	answers, failures := make([]answer, 18), make([]error, 18)
	for i := range answers {
		wg.Go(func() {
			// Without the harness, which ends the test from where it is: that must not be another goroutine.
			response, err := http.Post(nodes[i%3].url+tenantPath(tenantOne)+"/events", "application/json", strings.NewReader(`{"kind":"a"}`))
			if err != nil {
				failures[i] = err
				return
			}
			body, err := io.ReadAll(response.Body)
			answers[i], failures[i] = answer{response.StatusCode, response.Header, body}, errors.Join(err, response.Body.Close())
		})
	}
	wg.Wait()
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, errors.Join(failures...))
	owners, seqs := map[string]bool{}, map[int64]bool{}
	for _, a := range answers {
		got := into[appended](t, a, 200)
		require.EqualValues(t, 1, got.Epoch)
		owners[a.header.Get(api.OwnerHeader)], seqs[got.Events[0].Seq] = true, true
	}
	require.Len(t, owners, 1)
	require.Len(t, seqs, len(answers))
}

// H1: a node that leaves hands its tenants to the others, and still takes requests for them.
func TestH1_ALeavingNodeForwards(t *testing.T) {
	nodes := startCluster(t, "a", "b")
	const tenants = 8
	for i := range tenants {
		into[appended](t, nodes[0].post(tenantNumber(i)+"/events", `{"kind":"a"}`), 200)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, nodes[1].member.Leave(ctx))
	require.NoError(t, nodes[1].node.Shutdown(ctx))
	for i := range tenants {
		got := nodes[1].post(tenantNumber(i)+"/events", `{"kind":"b"}`)
		require.Equal(t, []messages.Appended{{Seq: 2}}, into[appended](t, got, 200).Events)
		require.Equal(t, nodes[0].node.Owner(), got.header.Get(api.OwnerHeader))
	}
}
