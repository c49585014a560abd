package cluster_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/sqlite"
)

// unreadable is a lease store that does not answer reads for a while.
type unreadable struct {
	*sqlite.Store
	away atomic.Bool
}

func (s *unreadable) Read(ctx context.Context, key messages.Key) (messages.Lease, bool, error) {
	if s.away.Load() {
		return messages.Lease{}, false, &messages.Error{Code: messages.CodeUnavailable, Key: key.String()}
	}
	return s.Store.Read(ctx, key)
}

// After an outage of the lease store every lease has ended. A member that was sent requests meanwhile lets a tenant's last
// owner go first, if that is there: it may hold what no durable copy has.
func TestTheLastOwnerOfATenantGoesFirst(t *testing.T) {
	f := newFleet(t)
	store := &unreadable{Store: f.leases}
	a := f.join("a")
	b := f.join("b", func(n *actors.Config, _ *cluster.Config) { n.Leases = store })
	f.see(2, a, b)
	lease, err := f.leases.Acquire(t.Context(), f.key(0), a.node.Owner(), messages.MinTTL)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return time.Now().After(lease.End) }, 10*time.Second, 5*time.Millisecond)

	subjects, err := client.NewSubjects("")
	require.NoError(t, err)
	conn := f.connect()
	ask := func() *messages.Reply {
		req := one(f, 0)
		req.Version, req.TimeoutMS, req.Avoid = messages.WireVersion, 5000, []string{a.node.Owner()}
		data, err := messages.EncodeWire(req)
		require.NoError(t, err)
		msg, err := conn.RequestWithContext(within(t, 10*time.Second), subjects.Request(b.node.Owner()), data)
		require.NoError(t, err)
		reply := &messages.Reply{}
		require.NoError(t, json.Unmarshal(msg.Data, reply))
		return reply
	}
	store.away.Store(true)
	require.ErrorIs(t, ask().Error, messages.ErrUnavailable, "it does not take what it cannot look at")
	store.away.Store(false)
	refused := ask().Error
	require.ErrorIs(t, refused, messages.ErrNotOwner)
	require.Equal(t, a.node.Owner(), refused.Owner)
	require.Len(t, f.grants(0), 1, "nobody has acquired it")

	a.kill()
	f.see(1, b)
	require.Nil(t, ask().Error, "nobody else is there")
	require.Len(t, f.grants(0), 2)
}
