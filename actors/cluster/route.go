package cluster

import (
	"context"
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// answer answers a request that has come to this member: from a client that asked any member, or (direct) from
// one that takes this member for the owner. It is carried out here, or refused with CodeNotOwner naming who
// should be asked. It never sends the request on: a client follows, so that no two members can wait for
// each other.
func (m *Member) answer(ctx context.Context, req *messages.Request, direct bool) *messages.Reply {
	if err := req.Validate(); err != nil {
		return m.refuse(err)
	}
	key := req.Key
	for !m.node.Has(key) {
		over := m.arrivals.waiting(key)
		if over == nil {
			break
		}
		select {
		case <-over:
		case <-ctx.Done():
			return m.refuse(ctx.Err()) // nothing was done
		}
	}
	if m.node.Has(key) {
		return m.local(ctx, req)
	}
	r := m.roster.Load()
	if next := m.departures.to(key); next != "" && next != m.self && r.live(next) && !slices.Contains(req.Avoid, next) {
		return m.elsewhere(key, next, 0)
	}
	if !direct || !req.Opens() || m.Leaving() {
		if reply := m.redirect(ctx, r, req); reply != nil {
			return reply
		}
	}
	return m.local(ctx, req)
}

// redirect says who should be asked instead of this member; nil: nobody, it is up to this one.
func (m *Member) redirect(ctx context.Context, r *roster, req *messages.Request) *messages.Reply {
	lease, known, err := m.node.Lease(ctx, req.Key)
	if err != nil {
		return m.refuse(err) // of a read: nothing was done
	}
	// Also when the lease has ended: after an outage of the lease store the last owner's local file may hold more
	// than the durable copy, and it knows how to save it.
	if known && lease.Owner != m.self && r.live(lease.Owner) && !slices.Contains(req.Avoid, lease.Owner) {
		return m.elsewhere(req.Key, lease.Owner, lease.Epoch)
	}
	if !req.Opens() {
		return m.refuse(&messages.Error{Code: messages.CodeNotFound, Key: req.Key.String(), Message: "the tenant is not open on any member"})
	}
	if to := r.suggest(req.Key, req.Avoid); to != "" && to != m.self {
		return m.elsewhere(req.Key, to, 0)
	}
	return nil
}

// local carries a request out on this node, and makes its refusals name whom to ask.
func (m *Member) local(ctx context.Context, req *messages.Request) *messages.Reply {
	reply := m.node.Do(ctx, req)
	e := reply.Error
	if e == nil {
		return reply
	}
	r := m.roster.Load()
	switch {
	case e.Code == messages.CodeHeld && e.Owner != m.self && r.live(e.Owner) && !slices.Contains(req.Avoid, e.Owner):
		return m.elsewhere(req.Key, e.Owner, e.Epoch)
	case e.Code == messages.CodeDraining && e.Owner == "" && m.Leaving():
		// The node itself is on its way out.
		if to := r.suggest(req.Key, req.Avoid); to != "" && to != m.self && !m.node.Has(req.Key) {
			return m.elsewhere(req.Key, to, 0)
		}
	case e.Code == messages.CodeNotOwner && e.Owner == "" && !req.Opens():
		// It closed in between.
		if reply := m.redirect(ctx, r, req); reply != nil {
			return reply
		}
	}
	return reply
}

// elsewhere refuses a request that belongs to another member.
func (m *Member) elsewhere(key messages.Key, owner string, epoch uint64) *messages.Reply {
	m.metrics.redirects.Inc()
	return m.refuse(&messages.Error{Code: messages.CodeNotOwner, Key: key.String(), Owner: owner, Epoch: epoch,
		Message: "another member serves this tenant, or should"})
}

func (m *Member) refuse(err error) *messages.Reply {
	return &messages.Reply{Owner: m.self, Error: messages.AsError(err)}
}
