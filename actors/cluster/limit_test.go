package cluster_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
)

// A NATS server with its default settings takes messages of 1 MiB. That limits requests, and it does so also where the
// member that is asked is the owner: else the same request would work or not, as tenants move.
func TestASmallerLimitOfTheServerIsTheSameAtEveryMember(t *testing.T) {
	small, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, MaxPayload: 1 << 20})
	require.NoError(t, err)
	go small.Start()
	t.Cleanup(func() { small.Shutdown(); small.WaitForShutdown() })
	require.True(t, small.ReadyForConnections(time.Minute))
	f := newFleet(t)
	on := func(_ *actors.Config, c *cluster.Config) {
		conn, err := natsconn.Config{URL: small.ClientURL()}.Connect(t.Context())
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		c.Conn = conn
	}
	a, b := f.join("a", on), f.join("b", on)
	f.see(2, a, b)
	ctx := within(t, time.Minute)
	event := func(bytes int) messages.Event {
		return messages.Event{Kind: "k", Payload: json.RawMessage(`"` + strings.Repeat("x", bytes) + `"`)}
	}
	for _, p := range []*part{a, b} {
		tenant := f.tenant(p, 1)
		_, err := tenant.Append(ctx, event(900<<10))
		require.NoError(t, err)
		_, err = tenant.AppendAll(ctx, []messages.Event{event(600 << 10), event(600 << 10)})
		require.ErrorIs(t, err, messages.ErrTooLarge)
		require.ErrorContains(t, err, "NATS server")
	}
	require.Len(t, f.grants(1), 1, "one of them has asked the other one")
}
