package leaseactor

import "time"

// OpenFence returns a fence on the real clock that is open for d.
func OpenFence(d time.Duration) *Fence {
	f := NewFence(nil)
	f.extend(time.Now().Add(d))
	return f
}
