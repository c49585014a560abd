package cluster

import (
	"context"

	"github.com/leasehold/leasehold/messages"
)

// yield looks at the lease of a tenant before this member acquires it, and says who should be asked instead; nil: nobody.
//
// While the lease store was away, clients were sent to whoever seemed best, and every lease has ended since. The last owner
// may hold more than the durable copy, and needs a moment to save it: if it is there, it goes first, however long the
// request has waited here. A member that cannot read the lease does not try to acquire it either: its attempt could be
// the first thing that reaches the store.
func (m *Member) yield(ctx context.Context, req *messages.Request) *messages.Reply {
	select {
	case <-m.known:
	case <-ctx.Done():
		return m.refuse(ctx.Err())
	}
	lease, known, err := m.node.Lease(ctx, req.Key)
	if err != nil {
		if ctx.Err() == nil {
			m.sightings.begin()
		}
		return m.refuse(err) // nothing was done
	}
	if !lease.Exists() && !req.Creates() {
		if err := m.node.Absent(ctx, req.Key, lease); err != nil {
			return m.refuse(err)
		}
	}
	r := m.roster.Load()
	if known && lease.Owner != m.self && r.serving(lease.Owner) && !m.shunned(r, lease.Owner, req.Avoid) && !m.arrivals.meant(req.Key) && m.first(lease) {
		return m.elsewhere(req.Key, lease.Owner, lease.Epoch)
	}
	return nil
}

// first reports whether the last owner of a tenant, if it is there, is sent the requests for it before anybody else
// acquires it, also when the lease has ended: after an outage of the lease store its local file may hold more than the
// durable copy, and it knows how to save it. But it must do so, or serve, within a TTL and the time in which a member that
// is not heard is given up: one that is heard, but cannot reach the stores, does not keep a tenant from the others.
func (m *Member) first(lease messages.Lease) bool {
	return m.sightings.unchanged(lease) <= lease.TTL+m.cfg.DeadAfter
}
