package leaseactor

import (
	"sync"

	"github.com/leasehold/leasehold/messages"
)

// Spent is a node's memory across its holder sessions: one for all sessions of an Owner. All methods
// are safe for concurrent use. For each key it remembers three things.
//
// The highest epoch for which this process has sent a release or a MarkForgotten and which may still
// be live in the store: because the answer was lost, or because only the floor was set so far. A later
// session must not adopt it, since the request may take effect at any time (docs/protocol.md,
// "Lease"). It is dropped when the store has confirmed the end of the epoch, or granted a later one.
//
// The session that was granted, or adopted, the newest epoch. When the next session takes over (the
// first one's actor crashed, say), the first one's fence is closed, and it can send no release or
// MarkForgotten any more, which would end the epoch under its successor. It is dropped when the session is over.
//
// The highest epoch that has ended, while an acquire waits for its answer: that may be the grant of an epoch which
// the next session has adopted and given up in the meantime. It is dropped with the last answer.
type Spent struct {
	mu      sync.Mutex
	entries map[tenancy]entry
}

// tenancy is what sessions can follow each other in.
type tenancy struct {
	key   messages.Key
	owner string
}

type entry struct {
	spent uint64 // the highest epoch given up; 0: none
	fence *Fence // of the session that has the newest epoch; nil: none
	epoch uint64 // that session's

	asking int    // acquires under way
	ended  uint64 // the highest epoch that has ended since the first of them began
}

// NewSpent returns an empty memory.
func NewSpent() *Spent { return &Spent{entries: make(map[tenancy]entry)} }

// Len returns how many keys have an epoch that was given up without a confirmation, for metrics.
func (s *Spent) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.entries {
		if e.spent > 0 {
			n++
		}
	}
	return n
}

func (s *Spent) set(t tenancy, e entry) {
	if e == (entry{}) {
		delete(s.entries, t)
		return
	}
	s.entries[t] = e
}

// ask records that a session is about to acquire; the function that it returns, that it has its answer.
func (s *Spent) ask(t tenancy) (answered func()) {
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		e := s.entries[t]
		if e.asking += n; e.asking == 0 {
			e.ended = 0
		}
		s.set(t, e)
	}
	add(1)
	return func() { add(-1) }
}

// adopt makes the session with this fence the one of an epoch that this owner is found to hold, and
// closes the fence of the session that had it before. It is refused if the epoch was given up;
// ignoreSpent is planted.AdoptReleasedEpoch.
func (s *Spent) adopt(t tenancy, fence *Fence, epoch uint64, ignoreSpent bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[t]
	// An epoch below the highest one given up is over anyway.
	if epoch <= e.spent && !ignoreSpent || epoch < e.epoch {
		return false
	}
	s.succeed(&e, fence, epoch)
	s.set(t, e)
	return true
}

// grant makes the session with this fence the one of an epoch that the store has granted to it. All
// earlier epochs are over. It is refused if another session was quicker to adopt the epoch, or has adopted and ended it.
func (s *Spent) grant(t tenancy, fence *Fence, epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[t]
	if e.taken(fence, epoch) || epoch <= e.ended {
		return false
	}
	if e.spent < epoch {
		e.spent = 0
	}
	s.succeed(&e, fence, epoch)
	s.set(t, e)
	return true
}

func (s *Spent) succeed(e *entry, fence *Fence, epoch uint64) {
	if e.fence != nil && e.fence != fence {
		e.fence.Close(messages.ReasonReleased)
	}
	e.fence, e.epoch = fence, epoch
}

// taken reports whether another session has the epoch.
func (e entry) taken(fence *Fence, epoch uint64) bool {
	return e.fence != nil && e.fence != fence && e.epoch >= epoch
}

// giveUp records that the session with this fence is about to send a release or a MarkForgotten for
// an epoch. It is refused if another session has taken the epoch over: then nothing may be sent.
func (s *Spent) giveUp(t tenancy, fence *Fence, epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[t]
	if e.taken(fence, epoch) {
		return false
	}
	e.spent = max(e.spent, epoch)
	s.set(t, e)
	return true
}

// ended records that the store lists no epoch up to and including this one as live any more.
func (s *Spent) ended(t tenancy, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[t]
	if e.spent <= epoch {
		e.spent = 0
	}
	if e.epoch <= epoch {
		e.fence, e.epoch = nil, 0
	}
	if e.asking > 0 {
		e.ended = max(e.ended, epoch)
	}
	s.set(t, e)
}
