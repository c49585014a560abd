package cluster_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/messages"
)

// A member that is frozen takes its messages, and answers none. Whoever leaves must not offer each of its tenants to it,
// one after the other.
func TestAMemberThatLeavesDoesNotWaitForAFrozenOneAgainAndAgain(t *testing.T) {
	f := newFleet(t)
	const tenants = 60
	a := f.join("a", func(_ *actors.Config, c *cluster.Config) { c.MoveParallel = 1 })
	outside := f.client()
	for i := range tenants {
		_, err := f.tenant(outside, i).Append(within(t, time.Minute), messages.Event{Kind: "k"})
		require.NoError(t, err)
	}
	require.Len(t, a.node.Serving(), tenants)
	b := f.join("b", func(_ *actors.Config, c *cluster.Config) { c.RebalanceEvery = time.Hour })
	f.see(2, a, b)
	// A frozen member is what NATS keeps for it: a subscription.
	subjects, err := client.NewSubjects("")
	require.NoError(t, err)
	frozen := messages.NewOwner("frozen", "1")
	conn := f.connect()
	var offered atomic.Int64
	_, err = conn.Subscribe(subjects.Member(frozen), func(*natsgo.Msg) { offered.Add(1) })
	require.NoError(t, err)
	last, err := json.Marshal(cluster.Info{Owner: frozen, Name: "frozen", Started: time.Now(), State: cluster.StateServing})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return conn.Publish(subjects.Members(), last) == nil && len(a.Members()) == 3 && len(b.Members()) == 3
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, a.Leave(within(t, time.Minute)))
	require.Less(t, offered.Load(), int64(10), "a third of the tenants would be 20, with 3 s for each")
	require.Empty(t, a.node.Serving())
	require.Eventually(t, func() bool { return len(b.node.Serving()) == tenants }, time.Minute, 10*time.Millisecond)
}
