package s3

import "time"

// proof is what proves the end of something that was written and stands for a span from its sending.
type proof struct {
	span time.Duration
	// seen is when an answer first showed it; sent when this process sent it, or zero.
	seen, sent time.Time
	// received is when the newest answer that showed it had come; age how old it was then, at least, by the server's
	// clock; aged is false if the answer does not say.
	received time.Time
	age      time.Duration
	aged     bool
}

// left returns how long it is, at most, until the end is proven; 0 or less: it is. skew below 0 leaves the proof
// by age out.
func (p proof) left(now time.Time, skew time.Duration) time.Duration {
	if p.span == 0 {
		return 0
	}
	left := p.span - now.Sub(p.seen) // observed
	if !p.sent.IsZero() {
		left = min(left, p.span-now.Sub(p.sent)) // own
	}
	if p.aged && skew >= 0 {
		left = min(left, p.span+skew-p.age-now.Sub(p.received)) // age
	}
	return left
}

// held returns how much of it is left as its writer counts: from the sending. Of what another process sent all is left.
func (p proof) held(now time.Time) time.Duration {
	if p.sent.IsZero() {
		return p.span
	}
	return p.span - now.Sub(p.sent)
}
