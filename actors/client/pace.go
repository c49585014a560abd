package client

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	minPause      = 10 * time.Millisecond
	maxPause      = 500 * time.Millisecond
	maxDrainPause = 250 * time.Millisecond
)

// pace says how long one request waits before it is sent again.
type pace struct{ next time.Duration }

// backoff waits longer each time: half of it is fixed, half is random ("equal jitter"), so that callers who
// failed together do not come back together.
func (p *pace) backoff() time.Duration {
	d := max(p.next, minPause)
	p.next = min(2*d, maxPause)
	return d/2 + rand.N(d/2) + 1
}

// after waits as long as a reply says, within limit, and up to a tenth more; where it says nothing it is
// backoff.
func (p *pace) after(retryAfter, limit time.Duration) time.Duration {
	if retryAfter <= 0 {
		return p.backoff()
	}
	d := max(min(retryAfter, limit), minPause)
	return d + rand.N(d/10)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
