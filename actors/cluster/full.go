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
	return Info{Owner: m.self, Name: m.node.Name(), Started: m.started, State: m.says(), Open: int(m.open.Load())}
}

// says returns the state that the others are told.
func (m *Member) says() State {
	if s := *m.state.Load(); s != StateServing || m.node.Full() == nil {
		return s
	}
	return StateFull
}

// suggest returns who should try to acquire a tenant that nobody holds; "": nobody can. The view may not know yet
// that this member leaves, or that its disk is full.
func (m *Member) suggest(r *roster, key messages.Key, avoid []string) string {
	without := ""
	if m.says() != StateServing {
		without = m.self
	}
	return r.suggest(key, avoid, without)
}

// instead says who should be asked for a tenant that this member would have to open, and has no room for; nil: it may
// try.
func (m *Member) instead(req *messages.Request) *messages.Reply {
	if refusal := m.noRoom.recall(req.Key, m.cfg.Now()); refusal != nil {
		return m.refuse(refusal)
	}
	if m.node.Full() == nil {
		return nil
	}
	if to := m.suggest(m.roster.Load(), req.Key, req.Avoid); to != "" && to != m.self {
		return m.elsewhere(req.Key, to, 0)
	}
	return nil // the node says why it cannot
}

// outOfRoom sends on a request whose tenant this node had no room for when it opened it: nothing was done, and the lease
// was released. It is a move like others: else the next owner would let this one, the last owner, go first. nil: nobody
// else takes the tenant, and the refusal is the answer.
func (m *Member) outOfRoom(ctx context.Context, req *messages.Request, refusal *messages.Error) *messages.Reply {
	if refusal.Code != messages.CodeStorage || !req.Opens() || m.node.Serves(req.Key) {
		return nil
	}
	m.noRoom.remember(req.Key, refusal, m.cfg.Now())
	to := m.roster.Load().suggest(req.Key, req.Avoid, m.self)
	if to == "" || to == m.self || m.send(ctx, to, moveExpect, req.Key) != nil {
		return nil
	}
	m.departures.remember(req.Key, to)
	_ = m.send(ctx, to, moveTake, req.Key) // if this gets lost, the request opens the tenant there
	return m.elsewhere(req.Key, to, 0)
}

// takes returns nil, or why this member takes no tenant from another one.
func (m *Member) takes(key messages.Key) error {
	if m.Leaving() || m.node.Stopping() {
		return &messages.Error{Code: messages.CodeDraining, Key: key.String(), Message: "the member leaves"}
	}
	if err := m.noRoom.recall(key, m.cfg.Now()); err != nil {
		return err
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
	m.log.Warn("moving tenants that could not store something: the local disk is full", "tenants", len(list))
	m.moveEach(ctx, list, pause)
}

// rememberNoRoom is how long a member knows that it had no room for a tenant, and does not take it: it may be too large
// for every member, and must not go in circles, because each round costs an epoch and a restore.
const rememberNoRoom = 5 * time.Second

// noRoom are the tenants that this node had no room for a moment ago. A lock for the same reason as in arrivals.
type noRoom struct {
	// Of the goroutine of the membership.
	full     bool      // as of the last heartbeat
	relieved time.Time // when cramped tenants were last moved

	mu   sync.Mutex
	keys map[messages.Key]lackOfRoom
}

type lackOfRoom struct {
	refusal *messages.Error
	until   time.Time
}

func (n *noRoom) remember(key messages.Key, refusal *messages.Error, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, one := range n.keys {
		if !now.Before(one.until) {
			delete(n.keys, k)
		}
	}
	if n.keys == nil {
		n.keys = make(map[messages.Key]lackOfRoom)
	}
	n.keys[key] = lackOfRoom{refusal, now.Add(rememberNoRoom)}
}

// recall returns the refusal of a tenant that there was no room for; nil: none, or too long ago.
func (n *noRoom) recall(key messages.Key, now time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	one, ok := n.keys[key]
	if !ok || !now.Before(one.until) {
		return nil
	}
	refusal := *one.refusal
	refusal.RetryAfter = one.until.Sub(now)
	return &refusal
}

// begin drops all of them: there is room again, or it is known that there is none.
func (n *noRoom) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.keys)
}
