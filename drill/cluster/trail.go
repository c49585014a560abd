package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// trailReader is what the drill asks of a lease store at the end.
type trailReader interface {
	History(ctx context.Context, key messages.Key) ([]messages.LeaseEntry, error)
}

// trails are the audit trails of all tenants.
type trails map[messages.Key][]messages.LeaseEntry

func readTrails(ctx context.Context, store trailReader, keys []messages.Key) (trails, error) {
	out := make(trails, len(keys))
	for _, key := range keys {
		entries, err := store.History(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("the audit trail of %s: %w", key, err)
		}
		out[key] = entries
	}
	return out, nil
}

// check states what an audit trail must show: the epochs are consecutive, and a grant comes when the lease before
// it is over, by the store's own clock.
func (t trails) check(slack time.Duration) (grants int, broken []string) {
	for key, entries := range t {
		epoch, end := uint64(0), time.Time{}
		for _, e := range entries {
			switch e.Op {
			case messages.OpAcquire:
				grants++
				if e.Epoch != epoch+1 {
					broken = append(broken, fmt.Sprintf("%s: epoch %d was granted after epoch %d", key, e.Epoch, epoch))
				}
				if e.At.Add(slack).Before(end) {
					broken = append(broken, fmt.Sprintf("%s: epoch %d was granted %v before the end of the lease before it", key, e.Epoch, end.Sub(e.At)))
				}
				epoch, end = e.Epoch, e.End
			case messages.OpRelease:
				end = e.At
			default:
				end = e.End
			}
		}
	}
	return grants, broken
}

// granted returns when an epoch of a tenant was granted; ok is false if it was not.
func (t trails) granted(key messages.Key, epoch uint64) (at time.Time, ok bool) {
	for _, e := range t[key] {
		if e.Op == messages.OpAcquire && e.Epoch == epoch {
			return e.At, true
		}
	}
	return time.Time{}, false
}

// lastRenewal returns when an epoch of a tenant was renewed last (or granted).
func (t trails) lastRenewal(key messages.Key, epoch uint64) (at time.Time) {
	for _, e := range t[key] {
		if e.Epoch == epoch && (e.Op == messages.OpAcquire || e.Op == messages.OpRenew) {
			at = e.At
		}
	}
	return at
}
