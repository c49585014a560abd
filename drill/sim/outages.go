package sim

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/drill/history"
)

// engineOutage takes the lease store, or both stores, away from every node at once, and brings them back
// together.
func (w *world) engineOutage(ctx context.Context, leasesOnly bool, d time.Duration) {
	w.logf("engine: outage for %v (of the lease store only: %v)", d, leasesOnly)
	w.count(func(s *Stats) { s.Outages++ })
	set := func(down bool) {
		for _, n := range w.nodes {
			if l := n.current(); l != nil {
				l.leases.set(func() { l.leases.down = down })
				if !leasesOnly {
					l.durable.set(func() { l.durable.down = down })
				}
			}
		}
	}
	set(true)
	rest(ctx, d)
	set(false)
	w.logf("engine: the outage is over")
}

// checkTails counts the acknowledged writes that outages cost, and judges those that they may not: after
// an outage in which no process crashed or was stopped, and nobody else took over before the last snapshot
// could land, nothing acknowledged is missing. That is so whenever the owner's fence closed by itself before
// the next grant, and its own way to the durable store had been clear for a while by then, or by when it gave
// up.
func (w *world) checkTails() {
	for _, tail := range w.history.Tails() {
		l := w.lives[tail.Owner]
		if l == nil || tail.Released || w.ordered(tail, history.OrderAbandon) || w.struckBetween(l, tail.Granted, tail.Next) {
			continue
		}
		w.count(func(s *Stats) { s.Away += len(tail.Writes) })
		end := tail.Next
		if !tail.Closed.IsZero() && tail.Closed.Before(end) {
			end = tail.Closed
		}
		switch {
		case tail.Fenced.IsZero() || !tail.Fenced.Before(tail.Next):
		case w.ordered(tail, history.OrderForget): // as long as that drains, there is no last snapshot
		case l.durable.clear(end.Add(-settling), end):
			w.fail("H2", tail.Key, "%d writes that epoch %d acknowledged are missing after an outage, from seq %d on: %s was fenced at %v, epoch granted next at %v, and the durable store was there",
				len(tail.Writes), tail.Epoch, tail.Writes[0].Seq, tail.Owner, tail.Fenced.Sub(w.begun), tail.Next.Sub(w.begun))
		}
	}
}

// ordered reports whether somebody gave the owner of a tail an order during its epoch.
func (w *world) ordered(tail history.Tail, name string) bool {
	for _, o := range w.history.Orders {
		if o.Key == tail.Key && o.Name == name && o.Owner == tail.Owner && !o.Sent.After(tail.Next) && (o.Answered.IsZero() || !o.Answered.Before(tail.Granted)) {
			return true
		}
	}
	return false
}

// struckBetween reports whether the process was killed or stopped between two instants.
func (w *world) struckBetween(l *life, from, to time.Time) bool {
	if !l.killed.IsZero() && !l.killed.After(to) {
		return true
	}
	l.process.mu.Lock()
	defer l.process.mu.Unlock()
	for _, s := range l.process.spans {
		if s.meets(from, to) {
			return true
		}
	}
	return false
}

// settling is how long a snapshot that met trouble may take until its next try: a request that is not
// answered, and the pause after it.
const settling = 2 * storeTimeout

// clear reports whether every request of the link was answered at once between two instants.
func (l *link) clear(from, to time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.trouble {
		if s.meets(from, to) {
			return false
		}
	}
	return true
}
