package cluster_test

import (
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/messages"
)

// Tenants are not shared out while a member leaves: where NATS is inside the nodes, its server ends in the middle of their moves.
func TestNobodySharesTenantsOutWhileAMemberLeaves(t *testing.T) {
	f := newFleet(t)
	a, c := f.join("a"), f.join("c")
	f.see(2, a, c)
	ctx := within(t, time.Minute)
	require.NoError(t, c.Leave(ctx))
	app := f.client()
	for i := range 30 {
		_, err := f.tenant(app, i).Append(ctx, messages.Event{Kind: "k", IdemKey: "1"})
		require.NoError(t, err)
	}
	require.Len(t, a.node.Serving(), 30)
	b := f.join("b")
	f.see(3, a, b, c)
	moved := func() bool { return len(b.node.Serving()) > 0 }
	// Longer than everything that could begin it: SettleAfter, RebalanceEvery, and the end of the patience with members that come and go.
	require.Never(t, moved, 2500*time.Millisecond, 10*time.Millisecond)
	require.NoError(t, c.Depart(ctx))
	require.Eventually(t, func() bool { return len(b.node.Serving()) >= 5 }, time.Minute, 10*time.Millisecond, "and at once when it has left")
}

// A member hedges what it sends to others, and tells how often; what it answers itself is not hedged, however long it takes.
func TestAMemberTellsWhatItHedged(t *testing.T) {
	f := newFleet(t)
	registry := prometheus.NewRegistry()
	a := f.join("a", func(_ *actors.Config, c *cluster.Config) {
		c.Registerer = registry
		c.Client.HedgeAfter = time.Nanosecond
	})
	ctx := within(t, time.Minute)
	for i := range 20 {
		_, err := f.tenant(a, i).Append(ctx, messages.Event{Kind: "k", IdemKey: "1"})
		require.NoError(t, err)
	}
	require.Contains(t, scrape(t, registry), `leasehold_hedges_total{outcome="asked"} 0`)
	b := f.join("b")
	f.see(2, a, b)
	require.Eventually(t, func() bool { return len(b.node.Serving()) > 0 }, time.Minute, 10*time.Millisecond)
	for i := range 20 {
		done, err := f.tenant(a, i).Append(ctx, messages.Event{Kind: "k", IdemKey: "2"})
		require.NoError(t, err)
		require.EqualValues(t, 2, done.Seq)
	}
	require.NotContains(t, scrape(t, registry), `leasehold_hedges_total{outcome="asked"} 0`)
}

func scrape(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	return string(body)
}
