package client

import (
	"sync"

	"github.com/leasehold/leasehold/messages"
)

// owners remembers which node owns a tenant. It may be wrong at any time: whoever is asked says so.
type owners struct {
	max int

	mu sync.Mutex
	m  map[messages.Key]string
}

func newOwners(limit int) *owners { return &owners{max: limit, m: make(map[messages.Key]string)} }

func (o *owners) get(key messages.Key) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.m[key]
}

func (o *owners) put(key messages.Key, owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.m[key]; !known && len(o.m) >= o.max {
		for any := range o.m { // no order: a forgotten owner costs one more hop, so it need not be the oldest
			delete(o.m, any)
			break
		}
	}
	o.m[key] = owner
}

// forget forgets an owner that turned out not to be one. One that another caller has learned since stays.
func (o *owners) forget(key messages.Key, owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m[key] == owner {
		delete(o.m, key)
	}
}
