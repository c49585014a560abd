package cluster

import (
	"context"
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// answerAny answers a request that was sent to any member: it says who should be asked. Nothing is carried out
// for it, so that a request to any member may get lost, and be sent again, without a doubt about what was
// done.
func (m *Member) answerAny(ctx context.Context, req *messages.Request) *messages.Reply {
	if err := req.Validate(); err != nil {
		return m.refuse(err)
	}
	owner, epoch, err := m.locate(ctx, req)
	switch {
	case err != nil:
		return m.refuse(err)
	case req.Action == messages.ActionLocate:
		return &messages.Reply{Owner: owner}
	}
	return m.elsewhere(req.Key, owner, epoch)
}

// locate says who should be sent the requests for a tenant: who serves it, or else who should acquire it.
func (m *Member) locate(ctx context.Context, req *messages.Request) (owner string, epoch uint64, err error) {
	key := req.Key
	r := m.roster.Load()
	if next := m.departed(r, req); next != "" {
		return next, 0, nil
	}
	if m.node.Has(key) || m.arrivals.waiting(key) != nil {
		return m.self, 0, nil
	}
	// A lease store that is slow for a moment, while its servers elect a leader, must not keep anybody from a tenant that
	// is served all the time: whoever answered last is tried, or whoever should have it.
	looking, cancel := context.WithTimeout(ctx, m.cfg.LookupTimeout)
	defer cancel()
	lease, known, err := m.node.Lease(looking, key)
	if err != nil {
		if ctx.Err() == nil {
			m.sightings.begin()
		}
		if last := m.client.Owner(key); last != "" && r.live(last) && !m.shunned(r, last, req.Avoid) {
			return last, 0, nil
		}
		known = false
	}
	avoid := req.Avoid
	if known && r.live(lease.Owner) && !m.shunned(r, lease.Owner, avoid) && !(lease.Owner == m.self && m.Leaving()) {
		if m.first(lease) {
			return lease.Owner, lease.Epoch, nil
		}
		avoid = append(slices.Clone(avoid), lease.Owner)
	}
	if to := m.suggest(r, key, avoid); to != "" {
		return to, 0, nil
	}
	return m.self, 0, err
}

// departed returns the member that a tenant was handed to a while ago, or is being handed to: it lets
// requests wait. While the tenant's actor here comes to its end, asking it would make it begin again. What is remembered
// may have come to nothing: the tenant is served here again, or that member leaves and takes nothing any more. It would
// send everybody back.
func (m *Member) departed(r *roster, req *messages.Request) string {
	next := m.departures.to(req.Key)
	if next == "" || !r.serving(next) || m.shunned(r, next, req.Avoid) || m.node.Serves(req.Key) {
		return ""
	}
	return next
}

// answer answers a request from a client that takes this member for the owner. It is carried out here, or
// refused with CodeNotOwner naming who should be asked. It is never sent on: a client follows, so that no
// two members can wait for each other.
func (m *Member) answer(ctx context.Context, req *messages.Request) *messages.Reply {
	if err := req.Validate(); err != nil {
		return m.refuse(err)
	}
	if err := m.fits(req); err != nil {
		return m.refuse(err)
	}
	if req.Action == messages.ActionLocate {
		return m.answerAny(ctx, req)
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
	if next := m.departed(m.roster.Load(), req); next != "" {
		return m.elsewhere(key, next, 0)
	}
	if !m.node.Has(key) {
		if reply := m.redirect(ctx, req); reply != nil {
			return reply
		}
	}
	return m.local(ctx, req)
}

// redirect says who should be asked for a tenant that is not open here; nil: this member may open it.
func (m *Member) redirect(ctx context.Context, req *messages.Request) *messages.Reply {
	if !req.Opens() {
		lease, _, err := m.node.Lease(ctx, req.Key)
		switch r := m.roster.Load(); {
		case err != nil:
			return m.refuse(err) // of a read: nothing was done
		case !lease.Exists():
			if err := m.node.Absent(ctx, req.Key, lease); err != nil {
				return m.refuse(err)
			}
		case lease.Owner != m.self && r.live(lease.Owner):
			return m.elsewhere(req.Key, lease.Owner, lease.Epoch)
		}
		return m.refuse(&messages.Error{Code: messages.CodeNotFound, Key: req.Key.String(), Message: "the tenant is not open on any member"})
	}
	if !m.Leaving() {
		if reply := m.yield(ctx, req); reply != nil {
			return reply
		}
		return m.instead(ctx, req)
	}
	owner, epoch, err := m.locate(ctx, req)
	switch {
	case err != nil:
		return m.refuse(err)
	case owner != m.self:
		return m.elsewhere(req.Key, owner, epoch)
	}
	return nil
}

// local carries a request out on this node, and makes its refusals name whom to ask.
func (m *Member) local(ctx context.Context, req *messages.Request) *messages.Reply {
	if reply := m.unknown(ctx, req); reply != nil {
		return reply
	}
	reply := m.node.Do(ctx, req)
	e := reply.Error
	if e == nil {
		return reply
	}
	if reply := m.turnedDown(ctx, req, e); reply != nil {
		return reply
	}
	r := m.roster.Load()
	switch {
	case e.Code == messages.CodeHeld && e.Owner != m.self && r.live(e.Owner) && !m.shunned(r, e.Owner, req.Avoid):
		return m.elsewhere(req.Key, e.Owner, e.Epoch)
	case e.Code == messages.CodeDraining && e.Owner == "" && m.Leaving():
		// The node itself is on its way out.
		if to := m.suggest(r, req.Key, req.Avoid); to != "" && to != m.self && !m.node.Has(req.Key) {
			return m.elsewhere(req.Key, to, 0)
		}
	case e.Code == messages.CodeNotOwner && e.Owner == "" && !req.Opens():
		// It closed in between.
		if reply := m.redirect(ctx, req); reply != nil {
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
