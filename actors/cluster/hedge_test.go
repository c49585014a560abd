package cluster_test

import (
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/messages"
)

// A tenant moves away from a node, and the node stands still before the client has heard of it. It takes what it is sent,
// and answers nothing.
func TestAClientFindsATenantThatHasMovedAwayFromAFrozenNode(t *testing.T) {
	f := newFleet(t)
	a := f.join("a")
	const attempt = 20 * time.Second
	remote, err := client.NewNATS(f.connect(), "")
	require.NoError(t, err)
	app, err := client.New(remote, client.Config{AttemptTimeout: attempt})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, app.Close()) })
	ctx := within(t, time.Minute)
	tenant := f.tenant(app, 1)
	_, err = tenant.Append(ctx, messages.Event{Kind: "k", IdemKey: "1"})
	require.NoError(t, err)

	still := func(_ *actors.Config, c *cluster.Config) { c.RebalanceEvery = time.Hour }
	b, c := f.join("b", still), f.join("c", still)
	f.see(3, a, b, c)
	a.stop(t)
	require.Equal(t, a.node.Owner(), app.Owner(f.key(1)), "it has not heard of it")
	conn := f.connect()
	subjects, err := client.NewSubjects("")
	require.NoError(t, err)
	_, err = conn.Subscribe(subjects.Request(a.node.Owner()), func(*natsgo.Msg) {})
	require.NoError(t, err)
	require.NoError(t, conn.FlushTimeout(10*time.Second))

	begun := time.Now()
	done, err := tenant.Append(ctx, messages.Event{Kind: "k", IdemKey: "2"})
	require.NoError(t, err)
	require.EqualValues(t, 2, done.Seq)
	require.False(t, done.Duplicate)
	require.Less(t, time.Since(begun), attempt/2, "it does not wait for the end of the attempt")
	require.NotEqual(t, a.node.Owner(), app.Owner(f.key(1)))
	require.Positive(t, app.Stats().Won)
}
