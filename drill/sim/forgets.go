package sim

import (
	"time"

	"github.com/leasehold/leasehold/messages"
)

// checkForgets judges forgets that take long: the lease is held, by renewals, until every copy is deleted (S6). That is so
// whenever the process ran all the time, with a clock that can be relied on and a clear way to the lease store.
func (w *world) checkForgets() {
	for _, key := range w.keys {
		trail := w.history.Trails[key]
		for i, forget := range trail {
			l := w.lives[forget.Owner]
			if forget.Op != messages.OpForget || l == nil {
				continue
			}
			for _, next := range trail[i+1:] {
				if next.Op != messages.OpAcquire || next.Epoch != forget.Epoch+1 {
					continue
				}
				_, wrong := w.history.Clockless[forget.Owner]
				if !w.deleted(key, forget, next.At) && !wrong && !w.struckBetween(l, forget.At.Add(-ttl), next.At) && l.leases.clear(forget.At.Add(-ttl), next.At) {
					w.fail("S6", key, "epoch %d was granted to %s %v after the floor was set to epoch %d, while %s was still deleting its copies",
						next.Epoch, next.Owner, next.At.Sub(forget.At), forget.Epoch, forget.Owner)
				}
				break
			}
		}
	}
}

// deleted reports whether the owner of a forget was through with it by then.
func (w *world) deleted(key messages.Key, forget messages.LeaseEntry, by time.Time) bool {
	for _, e := range w.history.Lifecycle {
		ends := e.Kind == messages.LifecycleForgotten || e.Kind == messages.LifecycleReleased || e.Kind == messages.LifecycleClosed
		if e.Key == key && e.Owner == forget.Owner && e.Epoch == forget.Epoch && ends && !e.At.After(by) {
			return true
		}
	}
	return false
}
