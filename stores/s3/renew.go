package s3

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// longestOfMany is how long one renewal of many may take by its record. It ends before the callers of all of them give up.
const longestOfMany = 3 * time.Second

// Renew implements stores.LeaseStore: one request, which many callers may share, if this Leases wrote the record last. A
// renewal with a shorter ttl does not move the end back.
func (l *Leases) Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error) {
	results, err := l.RenewMany(ctx, []stores.Renewal{{Key: key, Owner: owner, Epoch: epoch, TTL: ttl}})
	if err != nil {
		return messages.Lease{}, err
	}
	return results[0].Lease, results[0].Err
}

// RenewMany implements stores.BatchRenewer: one request for each renewal log that the leases are members of, and one or
// more for each lease that is in none (see the package comment). One of the latter that takes longer than a quarter of its ttl
// is CodeUnavailable, and the others are answered.
func (l *Leases) RenewMany(ctx context.Context, renewals []stores.Renewal) ([]stores.RenewalResult, error) {
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	results := make([]stores.RenewalResult, len(renewals))
	asked := make([]*ask, len(renewals))
	byLog := map[*logWriter][]*ask{}
	var byRecord []int
	for i, r := range renewals {
		if err := validate(r); err != nil {
			results[i].Err = err
			continue
		}
		if m := l.members.of(r.Key, r.Owner, r.Epoch, r.TTL); m != nil {
			asked[i] = &ask{ctx: ctx, of: m, answer: make(chan askAnswer, 1)}
			byLog[m.in] = append(byLog[m.in], asked[i])
		} else {
			byRecord = append(byRecord, i)
		}
	}
	for w, asks := range byLog {
		w.ask(asks...)
	}
	var group errgroup.Group
	group.SetLimit(l.cfg.MaxRequests)
	goByRecord := func(i int) {
		group.Go(func() error {
			ctx := ctx
			if len(renewals) > 1 {
				// All are answered together: a record that cannot be written must not hold up the others.
				limited, cancel := context.WithTimeout(ctx, min(renewals[i].TTL/4, longestOfMany))
				defer cancel()
				ctx = limited
			}
			results[i].Lease, results[i].Err = l.renewByRecord(ctx, renewals[i])
			return nil
		})
	}
	for _, i := range byRecord {
		goByRecord(i)
	}
	for i, a := range asked {
		if a == nil {
			continue
		}
		got, err := a.wait(l)
		switch {
		case err == nil && got.byRecord:
			goByRecord(i)
		case err == nil:
			results[i].Lease = got.lease
		default:
			results[i].Err = err
		}
	}
	return results, group.Wait()
}

func validate(r stores.Renewal) error {
	if err := stores.ValidateHolder(r.Key, r.Owner); err != nil {
		return err
	}
	return messages.ValidateTTL(r.TTL)
}

// wait returns the answer to an ask, or an error if it does not come in time.
func (a *ask) wait(l *Leases) (askAnswer, error) {
	select {
	case got := <-a.answer:
		return got, got.err
	case <-a.ctx.Done():
		return askAnswer{}, l.failure(a.ctx, a.ctx.Err(), "", "the renewal may or may not have been written")
	}
}

// renewByRecord writes the renewal into the record, which then names a member of a renewal log for the next ones.
func (l *Leases) renewByRecord(ctx context.Context, r stores.Renewal) (messages.Lease, error) {
	return l.update(ctx, r.Key, &claim{r.Owner, r.Epoch}, func(s sighting, now time.Time) (change, error) {
		left, err := l.holder(s, r.Key, r.Owner, r.Epoch, now)
		if err != nil {
			return change{}, err
		}
		c := l.change(s, messages.OpRenew, now)
		c.entry.TTLMS = r.TTL.Milliseconds()
		c.entry.EndMS = max(c.entry.EndMS, c.at+c.entry.TTLMS)
		c.span = max(left, r.TTL)
		return c, nil
	})
}
