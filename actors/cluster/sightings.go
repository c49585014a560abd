package cluster

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// sightings are the leases that this member has looked at: how long each has been the same. Whoever serves a tenant
// renews its lease; one that has ended and is there unchanged is served by nobody. That takes no comparison of the
// store's clock with this machine's. A lock for the same reason as in arrivals.
type sightings struct {
	now  func() time.Time
	mu   sync.Mutex
	keys map[messages.Key]sighting
}

type sighting struct {
	epoch       uint64
	end         time.Time
	first, last time.Time // looks at it, by this member's clock
}

func newSightings(now func() time.Time) *sightings {
	return &sightings{now: now, keys: make(map[messages.Key]sighting)}
}

// unchanged notes a look at a lease, and returns for how long it has been seen like this.
func (s *sightings) unchanged(lease messages.Lease) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	one, ok := s.keys[lease.Key]
	if !ok || one.epoch != lease.Epoch || !one.end.Equal(lease.End) {
		one = sighting{epoch: lease.Epoch, end: lease.End, first: now}
	}
	one.last = now
	s.keys[lease.Key] = one
	return now.Sub(one.first)
}

// begin drops all of them: the store was away, maybe for the owners too.
func (s *sightings) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.keys)
}

// sweep drops what nobody asks for any more.
func (s *sightings) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for key, one := range s.keys {
		if now.Sub(one.last) > rememberMove {
			delete(s.keys, key)
		}
	}
}
