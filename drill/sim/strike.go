package sim

import (
	"context"
	"math/rand/v2"
	"time"
)

// Faults that strike at one step of the protocol.

// own returns a stream of the link that no request draws from.
func (l *link) own(what string) *rand.Rand {
	r := l.streams[what]
	if r == nil {
		r = stream(l.w.Seed, l.name+" "+what)
		l.streams[what] = r
	}
	return r
}

// stopOpening suspends the process that was just granted a lease, now and then.
func (s leases) stopOpening() {
	s.mu.Lock()
	r := s.own("stop opening")
	chance, begin, d := r.Float64(), between(r, 0, 2*time.Second), between(r, ttl, 3*ttl)
	strikes := chance < s.w.Profile.StopOpening && !s.healed
	s.mu.Unlock()
	if !strikes {
		return
	}
	s.w.requests.Go(func() {
		time.Sleep(begin)
		s.process.suspend(s.w, s.owner, d)
	})
}

// stopPublishing stops the process that is about to send a manifest, now and then, until its lease is
// over and somebody wakes it.
func (s durable) stopPublishing() {
	s.mu.Lock()
	strikes := s.own("stop publishing").Float64() < s.w.Profile.StopPublishing && !s.healed
	s.mu.Unlock()
	if !strikes || s.process.stopped() {
		return
	}
	s.w.logf("%s is stopped before a manifest", s.owner)
	s.w.count(func(st *Stats) { st.Freezes++ })
	s.process.stop()
	s.w.requests.Go(func() {
		s.process.stopFor(context.Background(), 3*ttl)
		s.process.resume(false)
	})
}
