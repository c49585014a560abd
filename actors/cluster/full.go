package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// A member whose local disk is full says so with its heartbeats (StateFull). It is not suggested for any tenant, sends
// requests for tenants that it would have to open to the others, and moves those of its own there that could not store
// something. What needs no room it goes on serving.

func (m *Member) info() Info {
	return Info{Owner: m.self, Name: m.node.Name(), Started: m.started, State: m.says(), Open: int(m.open.Load()), App: m.app, Needs: int(m.needs.Load())}
}

// says returns the state that the others are told.
func (m *Member) says() State {
	if s := *m.state.Load(); s != StateServing || m.node.Full() == nil {
		return s
	}
	return StateFull
}

// suggest returns who should try to acquire a tenant that nobody holds; "": nobody can, as far as it is known here what
// the tenant wants. The view may not know yet that this member leaves, or that its disk is full.
func (m *Member) suggest(r *roster, key messages.Key, avoid []string) string {
	without := ""
	if m.says() != StateServing {
		without = m.self
	}
	return r.able(m.wants(key), without).suggest(key, avoid, without)
}

// instead says who should be asked for a tenant that this member would have to open, and has no room for; nil: it may
// try.
func (m *Member) instead(ctx context.Context, req *messages.Request) *messages.Reply {
	if refusal := m.noRoom.recall(req.Key, m.cfg.Now()); refusal != nil {
		return m.refuse(refusal)
	}
	if refusal := m.unable.recall(req.Key, m.cfg.Now()); refusal != nil {
		return m.passOn(ctx, req, m.wants(req.Key), refusal)
	}
	if m.node.Full() == nil {
		return nil
	}
	if to := m.suggest(m.roster.Load(), req.Key, req.Avoid); to != "" && to != m.self {
		return m.elsewhere(req.Key, to, 0)
	}
	return nil // the node says why it cannot
}

// turnedDown sends on a request whose tenant this node could not open, because it had no room for it or is not able to: nothing
// was done, and the lease was released. nil: it was not that.
func (m *Member) turnedDown(ctx context.Context, req *messages.Request, refusal *messages.Error) *messages.Reply {
	if !req.Opens() || m.node.Serves(req.Key) {
		return nil
	}
	switch refusal.Code {
	case messages.CodeStorage:
		m.noRoom.remember(req.Key, refusal, m.cfg.Now().Add(rememberNoRoom))
	case messages.CodeIncapable:
		m.unable.remember(req.Key, refusal, m.cfg.Now().Add(rememberUnable))
	default:
		return nil
	}
	return m.passOn(ctx, req, m.wants(req.Key), refusal)
}

// passOn hands a tenant that this member does not open to one that may. It is a move like others: else the next owner
// would let this one, the last owner, go first. If nobody else takes the tenant, the refusal is the answer.
func (m *Member) passOn(ctx context.Context, req *messages.Request, w wants, refusal *messages.Error) *messages.Reply {
	named := *refusal
	r := m.roster.Load().able(w, m.self)
	if to := r.suggest(req.Key, req.Avoid, m.self); to != "" && to != m.self && m.send(ctx, to, moveExpect, req.Key) == nil {
		m.departures.remember(req.Key, to)
		_ = m.send(ctx, to, moveTake, req.Key) // if this gets lost, the request opens the tenant there
		if refusal.Code != messages.CodeIncapable {
			return m.elsewhere(req.Key, to, 0)
		}
		named.Owner = to
	}
	return m.refuse(&named)
}

// takes returns nil, or why this member takes no tenant from another one that needs an application of this version.
func (m *Member) takes(key messages.Key, needs int) error {
	if m.Leaving() || m.node.Stopping() {
		return &messages.Error{Code: messages.CodeDraining, Key: key.String(), Message: "the member leaves"}
	}
	if needs > m.app.Schema {
		return &messages.Error{Code: messages.CodeIncapable, Key: key.String(), Needs: needs, Message: "the application of this member is too old for the tenant's ledger"}
	}
	for _, known := range []*refusals{&m.unable, &m.noRoom.refusals} {
		if refusal := known.recall(key, m.cfg.Now()); refusal != nil {
			return refusal
		}
	}
	return m.node.Full()
}

// reliefPause is the least time between two attempts to move cramped tenants.
const reliefPause = 5 * time.Second

// watchDisk looks at the disk with each heartbeat, and reports whether that changed who takes tenants. It is for the
// goroutine of the membership.
func (m *Member) watchDisk() (changed bool) {
	full := m.node.Full() != nil
	if changed = full != m.noRoom.full; changed {
		m.noRoom.full = full
		m.noRoom.begin()
	}
	if now := m.cfg.Now(); full && now.Sub(m.noRoom.relieved) >= reliefPause && len(m.crampedTenants()) > 0 {
		m.noRoom.relieved = now
		wake(m.cramped)
	}
	return changed
}

// crampedTenants returns the tenants that would be better off at a member with room on its disk.
func (m *Member) crampedTenants() []messages.Key {
	return slices.DeleteFunc(m.node.Serving(), func(key messages.Key) bool { return !m.node.Cramped(key) })
}

// relieve moves them.
func (m *Member) relieve(ctx context.Context, pause time.Duration) {
	list := m.crampedTenants()
	if len(list) == 0 {
		return // there is room again
	}
	m.log.Warn("moving tenants that could not store something", "tenants", len(list), "error", m.node.Full())
	m.moveEach(ctx, list, pause)
}

// rememberNoRoom is how long a member knows that it had no room for a tenant, and does not take it: it may be too large
// for every member, and must not go in circles, because each round costs an epoch and a restore.
const rememberNoRoom = 5 * time.Second

// noRoom are the tenants that this node had no room for a moment ago.
type noRoom struct {
	refusals
	// Of the goroutine of the membership.
	full     bool      // as of the last heartbeat
	relieved time.Time // when cramped tenants were last moved
}

// refusals are the tenants that this member could not open a while ago. A lock for the same reason as in arrivals.
type refusals struct {
	mu   sync.Mutex
	keys map[messages.Key]refused
}

type refused struct {
	why   *messages.Error
	until time.Time
}

func (n *refusals) remember(key messages.Key, why *messages.Error, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.keys == nil {
		n.keys = make(map[messages.Key]refused)
	}
	n.keys[key] = refused{why, until}
}

// recall returns why a tenant could not be opened; nil: it could, or that was too long ago.
func (n *refusals) recall(key messages.Key, now time.Time) *messages.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	one, ok := n.keys[key]
	if !ok || !now.Before(one.until) {
		return nil
	}
	why := *one.why
	why.RetryAfter = one.until.Sub(now)
	return &why
}

// sweep drops what is too old.
func (n *refusals) sweep(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, one := range n.keys {
		if !now.Before(one.until) {
			delete(n.keys, key)
		}
	}
}

// begin drops all of them: what was in their way may be over.
func (n *refusals) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.keys)
}
