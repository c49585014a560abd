package s3

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// maxMembers of a renewal log. All that one log renews is fenced together if it cannot be written.
const maxMembers = 4096

// membership is a lease of this process whose newest record names a member of one of its renewal logs.
type membership struct {
	in     *logWriter
	member int
	key    messages.Key
	owner  string
	epoch  uint64
	floor  uint64
	ttl    time.Duration
	nonce  string // of the record's entry that names the member
	seq    uint64 // of that entry

	// What follows is guarded by the writer's mu.
	sent   time.Time // when the newest renewal, or the record's version, was sent
	newest group     // the newest renewal; In is 0: there is none yet
	endMS  int64
	left   bool // it is renewed here no more
}

// renewal returns what is known of the newest renewal.
func (m *membership) renewal() renewal {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	r := renewal{group: m.newest}
	if r.In > 0 {
		r.proof = proof{span: r.ttl(), seen: m.sent, sent: m.sent}
	}
	return r
}

// memberships is what this process has in its renewal logs.
type memberships struct {
	leases   *Leases
	instance string

	creating chan struct{} // holds one: logs are created one at a time

	mu      sync.Mutex
	writers []*logWriter
	begun   int
	byKey   map[messages.Key]*membership
}

func newMemberships(l *Leases) *memberships {
	return &memberships{leases: l, instance: rand.Text(), creating: make(chan struct{}, 1), byKey: map[messages.Key]*membership{}}
}

// reserve returns a log that has room, and a member number in it that was never used. The caller says when it came. The log
// is there: no record ever names one that is not. A nil log: none can be created at the moment, and the lease is renewed by
// its record, until the next time.
func (s *memberships) reserve(ctx context.Context) (w *logWriter, member int, since uint64) {
	if w, member, since = s.room(); w != nil {
		return w, member, since
	}
	select {
	case s.creating <- struct{}{}:
		defer func() { <-s.creating }()
	case <-ctx.Done():
		return nil, 0, 0
	}
	if w, member, since = s.room(); w != nil || !s.create(ctx) {
		return w, member, since
	}
	return s.room()
}

// room is reserve in the logs that there are.
func (s *memberships) room() (w *logWriter, member int, since uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []*logWriter
	for _, w := range s.writers {
		if !w.ended() {
			open = append(open, w)
		}
	}
	s.writers = open
	for _, w := range open {
		if member, since, ok := w.reserve(); ok {
			return w, member, since
		}
	}
	return nil, 0, 0
}

// create adds a log. One whose creation is in doubt is left alone for ever: its name is not used again.
func (s *memberships) create(ctx context.Context) bool {
	s.mu.Lock()
	s.begun++
	name := fmt.Sprintf("%s-%04d", s.instance, s.begun)
	s.mu.Unlock()
	w := &logWriter{leases: s.leases, lane: s.leases.requester, logName: name, members: map[int]*membership{}, sent: map[uint64]time.Time{}}
	w.lane.room = make(chan struct{}, 1)
	if !w.create(ctx) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writers = append(s.writers, w)
	return true
}

// own returns the writer of a log, if it is one of this process that is still written.
func (s *memberships) own(logName string) *logWriter {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.writers {
		if w.logName == logName && !w.ended() {
			return w
		}
	}
	return nil
}

// of returns the membership of a lease as its holder names it, if it is renewed in a log.
func (s *memberships) of(key messages.Key, owner string, epoch uint64, ttl time.Duration) *membership {
	s.mu.Lock()
	m := s.byKey[key]
	s.mu.Unlock()
	if m == nil || m.owner != owner || m.epoch != epoch || m.ttl != ttl {
		return nil
	}
	return m
}

// join notes that an entry was written as the newest of its key. What the key was a member of before it is no more.
// The caller has the key's turn.
func (s *memberships) join(key messages.Key, e entry, w *logWriter, sent time.Time) {
	var m *membership
	if w != nil {
		m = &membership{in: w, member: e.Member, key: key, owner: e.Owner, epoch: e.Epoch, floor: e.Floor, ttl: time.Duration(e.TTLMS) * time.Millisecond,
			nonce: e.Nonce, seq: e.Seq, sent: sent, endMS: e.EndMS}
	}
	if m != nil {
		w.add(m) // first: whoever finds it may renew it, and the writer must know what it renews
	}
	s.mu.Lock()
	old := s.byKey[key]
	if m == nil {
		delete(s.byKey, key)
	} else {
		s.byKey[key] = m
	}
	s.mu.Unlock()
	if old != nil {
		old.in.drop(old)
	}
}

// leave ends the renewals of a claim in its log, for the time being: until the record names another member. It waits for
// one in flight, and returns the membership that was left, nil if there was none: a claim of another owner or epoch, which
// will be refused, does not disturb the holder. The caller has the key's turn.
func (s *memberships) leave(ctx context.Context, key messages.Key, by claim) (*membership, error) {
	s.mu.Lock()
	m := s.byKey[key]
	s.mu.Unlock()
	if m == nil || m.owner != by.owner || m.epoch != by.epoch {
		return nil, nil
	}
	if err := m.in.leave(ctx, m); err != nil {
		return nil, s.leases.failure(ctx, err, "", "a renewal of the lease is in flight")
	}
	return m, nil
}

// superseded forgets the membership of a key whose record was seen to have gone on without it.
func (s *memberships) superseded(key messages.Key, newest entry) {
	s.mu.Lock()
	m := s.byKey[key]
	if m == nil || m.nonce == newest.Nonce || m.seq >= newest.Seq {
		s.mu.Unlock()
		return
	}
	delete(s.byKey, key)
	s.mu.Unlock()
	m.in.drop(m)
}

// forget drops memberships that are over.
func (s *memberships) forget(gone []*membership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range gone {
		if s.byKey[m.key] == m {
			delete(s.byKey, m.key)
		}
	}
}

// turns lets this process do one thing at a time to each of many objects. The writes of one key's record take turns:
// between two of them it is known which member the record names. So do its revocations in one log of another process: the
// first may make the others needless. A key's turn is taken before a log's.
type turns[K comparable] struct {
	mu    sync.Mutex
	byKey map[K]*turn
}

type turn struct {
	taken   chan struct{} // holds one
	waiting int
}

// take waits for the turn of a key. The caller gives it back with the function returned.
func (t *turns[K]) take(ctx context.Context, key K) (done func(), err error) {
	t.mu.Lock()
	k := t.byKey[key]
	if k == nil {
		k = &turn{taken: make(chan struct{}, 1)}
		t.byKey[key] = k
	}
	k.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if k.waiting--; k.waiting == 0 {
			delete(t.byKey, key)
		}
	}
	select {
	case k.taken <- struct{}{}:
		return func() { <-k.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
