package nats

import "time"

// SetOrphanAge lets a test sweep at once what a Config would keep for an hour at least.
func (s *Objects) SetOrphanAge(d time.Duration) { s.orphanAge = d }
