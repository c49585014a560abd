package nats

import (
	"sync/atomic"
	"time"
)

// latency is how long answers take at the moment: the smoothed round-trip time of TCP (RFC 6298, section 2, with
// alpha = 1/8). A server that is slow because it has much to do must not be asked everything twice. It is shared by
// all requests of a link; a sample that is lost when two come at once does no harm.
type latency struct{ ns atomic.Int64 }

// took adds one sample.
func (l *latency) took(d time.Duration) {
	before := l.ns.Load()
	if before == 0 {
		l.ns.Store(int64(d))
		return
	}
	l.ns.Store(before + (int64(d)-before)/8)
}

// smoothed returns the smoothed latency; 0: nothing was asked yet.
func (l *latency) smoothed() time.Duration { return time.Duration(l.ns.Load()) }
