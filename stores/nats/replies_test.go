package nats_test

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/nats"
)

// tap dials, and counts the subscriptions that a client ends.
type tap struct{ ended atomic.Int64 }

func (d *tap) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return tapped{c, d}, err
}

type tapped struct {
	net.Conn
	tap *tap
}

func (c tapped) Write(b []byte) (int, error) {
	c.tap.ended.Add(int64(bytes.Count(b, []byte("UNSUB "))))
	return c.Conn.Write(b)
}

// The end of a subscription costs a server a walk through every API request that is under way. However many requests are
// sent together, and however often, the stores end none before they are closed.
func TestNoSubscriptionEndsWhileAStoreIsOpen(t *testing.T) {
	d := &tap{}
	cfg := nats.Config{URL: single.URL(), Cluster: "replies", Replicas: 1, SyncAlways: true,
		Options: []natsgo.Option{natsgo.SetCustomDialer(d)}}
	leases, err := nats.OpenLeases(t.Context(), cfg)
	require.NoError(t, err)
	batch := acquireMany(t, leases, 20)
	objects, err := nats.OpenObjects(t.Context(), cfg)
	require.NoError(t, err)
	before := d.ended.Load()
	for range 10 {
		results, err := leases.RenewMany(t.Context(), batch)
		require.NoError(t, err)
		for _, r := range results {
			require.NoError(t, r.Err)
		}
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // in chunks
	created, err := objects.PutIfAbsent(t.Context(), "a/b", large)
	require.NoError(t, err)
	require.True(t, created)
	got, ok, err := objects.Get(t.Context(), "a/b", 1<<30)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, large, got)
	require.Equal(t, before, d.ended.Load())
	require.NoError(t, objects.Close())
	require.NoError(t, leases.Close())
}
