package leaseactor

import (
	"sync"

	"github.com/leasehold/leasehold/messages"
)

// Spent remembers, for each key, the highest epoch for which this process has sent a release or a
// MarkForgotten and which may still be live in the store: because the answer was lost, or because
// only the floor was set so far. Such an epoch must not be adopted by a later session of the same
// process, since the request may take effect at any time (docs/protocol.md, "Lease").
//
// A node has one Spent for all of its sessions. An entry is dropped when the store has confirmed the
// end of the epoch, or has granted a later one. All methods are safe for concurrent use.
type Spent struct {
	mu     sync.Mutex
	epochs map[messages.Key]uint64
}

// NewSpent returns an empty memory.
func NewSpent() *Spent { return &Spent{epochs: make(map[messages.Key]uint64)} }

// Len returns the number of entries, for metrics.
func (s *Spent) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.epochs)
}

// add records that a release or a MarkForgotten for epoch is about to be sent.
func (s *Spent) add(key messages.Key, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epochs[key] = max(s.epochs[key], epoch)
}

// ended records that the store lists no epoch up to and including this one as live any more.
func (s *Spent) ended(key messages.Key, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epochs[key] <= epoch {
		delete(s.epochs, key)
	}
}

// has reports whether epoch was given up. An epoch below the highest one given up is over anyway.
func (s *Spent) has(key messages.Key, epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return epoch <= s.epochs[key]
}
