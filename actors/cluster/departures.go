package cluster

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// rememberMove is how long a member knows whom it handed a tenant to. Clients that have not heard of the
// move are sent there, and the tenant is not taken back by accident.
const rememberMove = 30 * time.Second

// departures are the tenants that this member handed to others a while ago. A lock for the same reason as
// in arrivals.
type departures struct {
	now  func() time.Time
	mu   sync.Mutex
	keys map[messages.Key]departure
}

type departure struct {
	to    string
	until time.Time
}

func (d *departures) remember(key messages.Key, to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys[key] = departure{to, d.now().Add(rememberMove)}
}

func (d *departures) forget(key messages.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.keys, key)
}

// to returns whom a tenant was handed to; "": nobody, or too long ago.
func (d *departures) to(key messages.Key) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	one, ok := d.keys[key]
	if !ok {
		return ""
	}
	if !d.now().Before(one.until) {
		delete(d.keys, key)
		return ""
	}
	return one.to
}

// sweep drops what is too old.
func (d *departures) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, one := range d.keys {
		if !d.now().Before(one.until) {
			delete(d.keys, key)
		}
	}
}
