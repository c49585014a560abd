package cluster

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// arrivals are the tenants that other members are about to hand to this one. Requests for them wait here
// instead of being refused. It is shared by the goroutines of requests and of moves, hence the lock, which
// is never held while anything is waited for.
type arrivals struct {
	now  func() time.Time
	mu   sync.Mutex
	keys map[messages.Key]*arrival
	told map[messages.Key]time.Time // until when it is remembered that a tenant was to come here
}

type arrival struct {
	from  string
	timer *time.Timer
	over  chan struct{} // closed when the tenant is here, or will not come
}

func newArrivals(now func() time.Time) *arrivals {
	return &arrivals{now: now, keys: make(map[messages.Key]*arrival), told: make(map[messages.Key]time.Time)}
}

// expect begins to wait for a tenant, at most for a time. It takes the place of an earlier expectation.
func (a *arrivals) expect(key messages.Key, from string, most time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before := a.keys[key]; before != nil {
		a.end(key, before)
	}
	a.told[key] = a.now().Add(rememberMove)
	one := &arrival{from: from, over: make(chan struct{})}
	a.keys[key] = one
	one.timer = time.AfterFunc(most, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.keys[key] == one {
			a.end(key, one)
		}
	})
}

// ended says that a tenant which was to come from an owner is here, or will not come.
func (a *arrivals) ended(key messages.Key, from string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one := a.keys[key]; one != nil && one.from == from {
		a.end(key, one)
	}
}

// end is called with the lock.
func (a *arrivals) end(key messages.Key, one *arrival) {
	one.timer.Stop()
	delete(a.keys, key)
	close(one.over)
}

// endIf ends the expectations of tenants from owners who will not hand anything over any more.
func (a *arrivals) endIf(gone func(from string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, one := range a.keys {
		if gone(one.from) {
			a.end(key, one)
		}
	}
}

// waiting returns what to wait for before a tenant is looked for here; nil: nothing.
func (a *arrivals) waiting(key messages.Key) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one := a.keys[key]; one != nil {
		return one.over
	}
	return nil
}

// meant reports whether a tenant was to come here a while ago: its last owner remembers that, too, and would send
// everybody back.
func (a *arrivals) meant(key messages.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.told[key]
	return ok && a.now().Before(until)
}

// sweep drops what is too old.
func (a *arrivals) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, until := range a.told {
		if !a.now().Before(until) {
			delete(a.told, key)
		}
	}
}
