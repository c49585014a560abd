package cluster_test

import (
	"context"
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

// ended makes an owner the last one of a tenant, whose lease has ended by itself.
func (f *fleet) ended(i int, owner string) {
	f.t.Helper()
	lease, err := f.leases.Acquire(f.t.Context(), f.key(i), owner, messages.MinTTL)
	require.NoError(f.t, err)
	require.Eventually(f.t, func() bool { return time.Now().After(lease.End) }, time.Minute, 5*time.Millisecond)
}

// askDirectly sends an append to a member as a client does that takes it for the owner, and avoids others.
func (f *fleet) askDirectly(p *part, i int, avoid ...string) *messages.Reply {
	f.t.Helper()
	req := one(f, i)
	req.Version, req.TimeoutMS, req.Avoid = messages.WireVersion, 30_000, avoid
	data, err := messages.EncodeWire(req)
	require.NoError(f.t, err)
	subjects, err := client.NewSubjects("")
	require.NoError(f.t, err)
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	msg, err := f.connect().RequestWithContext(ctx, subjects.Request(p.node.Owner()), data)
	require.NoError(f.t, err)
	reply := &messages.Reply{}
	require.NoError(f.t, json.Unmarshal(msg.Data, reply))
	return reply
}

// After an outage of the lease store every lease has ended. A member that was sent requests meanwhile lets a tenant's last
// owner go first, if that is there: it may hold what no durable copy has.
func TestTheLastOwnerOfATenantGoesFirst(t *testing.T) {
	f := newFleet(t)
	store := &unreadable{Store: f.leases}
	a := f.join("a")
	b := f.join("b", func(n *actors.Config, _ *cluster.Config) { n.Leases = store })
	f.see(2, a, b)
	f.ended(0, a.node.Owner())

	ask := func() *messages.Reply { return f.askDirectly(b, 0, a.node.Owner()) }
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

// A member that has only just joined has not heard the others yet. It does not take their tenants for abandoned.
func TestAMemberThatJoinsWaitsForTheOthersToSpeak(t *testing.T) {
	f := newFleet(t)
	last := messages.NewOwner("last", "1")
	f.ended(0, last)
	subjects, err := client.NewSubjects("")
	require.NoError(t, err)
	conn := f.connect()
	info, err := json.Marshal(cluster.Info{Owner: last, Name: "last", Started: time.Now(), State: cluster.StateServing})
	require.NoError(t, err)
	_, err = conn.Subscribe(subjects.Members(), func(msg *natsgo.Msg) {
		var beat struct{ Ask bool }
		if json.Unmarshal(msg.Data, &beat) == nil && beat.Ask {
			// An answer takes its time.
			time.AfterFunc(50*time.Millisecond, func() { _ = conn.Publish(subjects.Members(), info) })
		}
	})
	require.NoError(t, err)
	require.NoError(t, conn.FlushWithContext(within(t, time.Minute)))
	b := f.join("b", func(_ *actors.Config, c *cluster.Config) {
		c.HeartbeatEvery, c.DeadAfter = 2*time.Second, 10*time.Second
	})
	refused := f.askDirectly(b, 0).Error
	require.ErrorIs(t, refused, messages.ErrNotOwner)
	require.Equal(t, last, refused.Owner)
}

// A last owner that is heard, but takes no requests and cannot reach the stores, does not keep its tenants from the others.
func TestALastOwnerThatDoesNothingIsNotWaitedForForever(t *testing.T) {
	f := newFleet(t)
	// A member that misses two of its own heartbeats takes it for an outage, and begins to wait anew.
	b := f.join("b", func(_ *actors.Config, c *cluster.Config) { c.HeartbeatEvery, c.DeadAfter = time.Second, 3*time.Second })
	last := messages.NewOwner("last", "1")
	subjects, err := client.NewSubjects("")
	require.NoError(t, err)
	conn := f.connect()
	_, err = conn.Subscribe(subjects.Request(last), func(*natsgo.Msg) {}) // what it is asked gets there, and is not answered
	require.NoError(t, err)
	info, err := json.Marshal(cluster.Info{Owner: last, Name: "last", Started: time.Now(), State: cluster.StateServing})
	require.NoError(t, err)
	beats := time.NewTicker(50 * time.Millisecond)
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-beats.C:
				_ = conn.Publish(subjects.Members(), info)
			case <-over:
				return
			}
		}
	}()
	defer func() { close(over); beats.Stop(); <-stopped }()
	f.see(2, b)
	f.ended(0, last)
	require.Equal(t, last, f.askDirectly(b, 0).Error.Owner, "it goes first")
	_, err = f.tenant(f.client(), 0).Append(within(t, time.Minute), messages.Event{Kind: "k", IdemKey: "k"})
	require.NoError(t, err)
	require.Len(t, f.grants(0), 2)
	require.Equal(t, b.node.Owner(), f.grants(0)[1].Owner)
}
