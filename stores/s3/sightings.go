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
	// received, age and aged are those of a proof.
	received time.Time
	age      time.Duration
	aged     bool
}

// sighting is what this process knows of a version of a record, and of the renewals that stand in the log it names.
type sighting struct {
	view
	seen    time.Time // when it was first shown
	sent    time.Time // when this process sent it; zero: another did
	renewal renewal
}

// renewal is the newest renewal of a lease that stands in a renewal log. In is 0: there is none.
type renewal struct {
	group
	proof
	revoked bool
	gone    bool    // the log is: the proof is that of any renewal which may have stood in it
	log     logView // the version that shows it
}

func (s sighting) proof() proof {
	return proof{span: s.rec.span(), seen: s.seen, sent: s.sent, received: s.received, age: s.age, aged: s.aged}
}

// left returns how long it is, at most, until the lease is proven to be over, by the record and by its log; 0 or less:
// it is.
func (s sighting) left(now time.Time, skew time.Duration) time.Duration {
	left := s.proof().left(now, skew)
	if (s.renewal.In > 0 || s.renewal.gone) && s.rec.SpanMS > 0 {
		left = max(left, s.renewal.left(now, skew))
	}
	return left
}

// held returns how much of the lease is left as its holder counts.
func (s sighting) held(now time.Time) time.Duration {
	held := s.proof().held(now)
	if s.renewal.In > 0 || s.renewal.gone {
		held = max(held, s.renewal.held(now))
	}
	return held
}

// mine says whether this process sent what the lease stands by.
func (s sighting) mine() bool {
	if s.renewal.In > 0 || s.renewal.gone {
		return !s.renewal.sent.IsZero()
	}
	return !s.sent.IsZero()
}

// lease returns the lease as record and log have it.
func (s sighting) lease(key messages.Key) messages.Lease {
	lease := s.rec.last().lease(key)
	if s.renewal.In > 0 {
		lease.TTL, lease.End = s.renewal.ttl(), time.UnixMilli(max(s.rec.last().EndMS, s.renewal.endMS())).UTC()
	}
	return lease
}

// lastMS is the time of the newest entry or renewal.
func (s sighting) lastMS() int64 {
	if s.rec == nil {
		return 0
	}
	return max(s.rec.last().AtMS, s.renewal.AtMS)
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
	// When the renewal that came with a version of the record's log was first shown.
	renewedIn   uint64
	renewalSeen time.Time
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
	if ok && old.nonce == last.Nonce {
		keep.renewedIn, keep.renewalSeen = old.renewedIn, old.renewalSeen
	}
	if now.sent.IsZero() || v.rec.SpanMS == 0 {
		keep.view = view{}
	}
	s.byKey[key] = keep
	return now
}

// noteRenewal takes in that an answer showed a renewal of a version of a record, and returns when it was first shown.
func (s *sightings) noteRenewal(key messages.Key, nonce string, in uint64, received time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.byKey[key]
	if !ok || k.nonce != nonce || k.renewedIn > in {
		return received
	}
	if k.renewedIn < in || received.Before(k.renewalSeen) {
		k.renewedIn, k.renewalSeen = in, received
		s.byKey[key] = k
	}
	return k.renewalSeen
}

// own returns the newest known version of a key, if this process wrote it and holds the lease.
func (s *sightings) own(key messages.Key) (sighting, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byKey[key]
	return k.sighting, k.rec != nil
}
