package s3

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// maxSightings bounds the memory of the sightings. What is forgotten has to be looked at anew.
const maxSightings = 100_000

// view is one version of a record, as an answer showed it. A nil record: there is none.
type view struct {
	rec  *record
	etag string
	// received is when the answer had come, on this process's clock; age how old the version was then, at
	// least, by the server's; known is false if the answer does not say.
	received time.Time
	age      time.Duration
	aged     bool
}

// sighting is what this process knows of a version of a record.
type sighting struct {
	view
	seen time.Time // when it was first shown
	sent time.Time // when this process sent it; zero: another did
}

// sightings remembers when which version was first seen: the proof "observed" needs nothing else. Of a
// lease that this process holds it keeps the record too, so that it can be renewed without a read.
type sightings struct {
	mu    sync.Mutex
	byKey map[messages.Key]kept
}

type kept struct {
	sighting
	nonce string
	seq   uint64
}

// note takes a view in, and returns what is now known of that version. sent is when this process sent
// it, or zero.
func (s *sightings) note(key messages.Key, v view, sent time.Time) sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := sighting{view: v, seen: v.received, sent: sent}
	if v.rec == nil {
		delete(s.byKey, key)
		return now
	}
	last := v.rec.last()
	old, ok := s.byKey[key]
	switch {
	case ok && old.nonce == last.Nonce:
		if sent.IsZero() {
			now.sent = old.sent
		}
		if old.seen.Before(now.seen) {
			now.seen = old.seen
		}
	case ok && old.seq > last.Seq:
		return now // an answer that was overtaken by a newer one
	case !ok && len(s.byKey) >= maxSightings:
		for k := range s.byKey { // any one
			delete(s.byKey, k)
			break
		}
	}
	keep := kept{sighting: now, nonce: last.Nonce, seq: last.Seq}
	if now.sent.IsZero() || v.rec.SpanMS == 0 {
		keep.view = view{}
	}
	s.byKey[key] = keep
	return now
}

// own returns the newest known version of a key, if this process wrote it and holds the lease.
func (s *sightings) own(key messages.Key) (sighting, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byKey[key]
	return k.sighting, k.rec != nil
}

// left returns how long it is, at most, until the lease is proven to be over; 0 or less: it is. skew
// below 0 leaves the proof by age out.
func (s sighting) left(now time.Time, skew time.Duration) time.Duration {
	span := s.rec.span()
	if span == 0 {
		return 0 // released
	}
	left := span - now.Sub(s.seen) // observed
	if !s.sent.IsZero() {
		left = min(left, span-now.Sub(s.sent)) // own
	}
	if s.aged && skew >= 0 {
		left = min(left, span+skew-s.age-now.Sub(s.received)) // age
	}
	return left
}
