package s3

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Leases is a lease store in a bucket. It is safe for concurrent use, and for use together with others
// on the same bucket and prefix, in this and in other processes.
type Leases struct {
	requester
	skew    time.Duration
	wait    time.Duration
	clock   *clock
	known   sightings
	looks   looks
	turns   turns[messages.Key]
	revokes turns[string] // by the name of the log
	reads   logReads
	members *memberships
}

var (
	_ stores.LeaseStore       = (*Leases)(nil)
	_ stores.LeaseLister      = (*Leases)(nil)
	_ stores.BatchRenewer     = (*Leases)(nil)
	_ stores.Reseeder         = (*Leases)(nil)
	_ stores.DeploymentKeeper = (*Leases)(nil)
)

// Leases opens the bucket's lease store. It takes up to a second, in which it looks for the tick of the
// server's clock. The errors are those of Open.
func (b *Bucket) Leases(ctx context.Context, cfg LeaseConfig) (*Leases, error) {
	l := &Leases{requester: b.requester(), clock: newClock(b.cfg.Now), known: sightings{byKey: map[messages.Key]kept{}},
		looks: looks{byName: map[string]*look{}}, turns: turns[messages.Key]{byKey: map[messages.Key]*turn{}},
		revokes: turns[string]{byKey: map[string]*turn{}}, reads: logReads{byName: map[string]*logRead{}},
		skew: orDefault(cfg.ClockSkew, defaultClockSkew), wait: orDefault(cfg.AcquireWait, defaultAcquireWait)}
	l.members = newMemberships(l)
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	if err := l.calibrate(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Read implements stores.LeaseStore.
func (l *Leases) Read(ctx context.Context, key messages.Key) (messages.Lease, bool, error) {
	if err := key.Validate(); err != nil {
		return messages.Lease{}, false, err
	}
	s, err := l.load(ctx, key)
	if err != nil || s.rec == nil {
		return messages.Lease{}, false, err
	}
	return s.lease(key), true, nil
}

// Acquire implements stores.LeaseStore. If the end of the lease has passed and it is not yet proven
// that it is over (see the package comment), it waits for the proof for up to LeaseConfig.AcquireWait.
// RetryAfter of a held error is when there will be proof.
func (l *Leases) Acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error) {
	if err := stores.ValidateHolder(key, owner); err != nil {
		return messages.Lease{}, err
	}
	if err := messages.ValidateTTL(ttl); err != nil {
		return messages.Lease{}, err
	}
	began := l.cfg.Now()
	return l.update(ctx, key, nil, func(s sighting, now time.Time) (change, error) {
		next := entry{Op: messages.OpAcquire, Owner: owner, Epoch: 1, TTLMS: ttl.Milliseconds()}
		at := l.at(s, now)
		if s.rec != nil {
			left := s.left(now, l.skew)
			if left > 0 {
				lease := s.lease(key)
				refusal := stores.Held(lease, max(left, time.Millisecond))
				if lease.End.UnixMilli() <= at && left <= l.wait-now.Sub(began) {
					return change{}, &waitError{left, refusal}
				}
				return change{}, refusal
			}
			next.Epoch, next.Floor, next.Lineage = s.rec.last().Epoch+1, s.rec.last().Floor, s.rec.last().Lineage
		}
		next.EndMS = at + next.TTLMS
		return change{entry: next, at: at, span: ttl}, nil
	})
}

// Release implements stores.LeaseStore.
func (l *Leases) Release(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return l.holders(ctx, key, owner, epoch, messages.OpRelease)
}

// MarkForgotten implements stores.LeaseStore.
func (l *Leases) MarkForgotten(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return l.holders(ctx, key, owner, epoch, messages.OpForget)
}

// MarkLineage implements stores.LeaseStore.
func (l *Leases) MarkLineage(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return l.holders(ctx, key, owner, epoch, messages.OpLineage)
}

// Reseed implements stores.Reseeder.
func (l *Leases) Reseed(ctx context.Context, seed stores.Seed, live bool) (messages.Lease, error) {
	if err := seed.Validate(); err != nil {
		return messages.Lease{}, err
	}
	var unchanged messages.Lease
	lease, err := l.update(ctx, seed.Key, nil, func(s sighting, now time.Time) (change, error) {
		var old messages.Lease
		if s.rec != nil {
			old = s.lease(seed.Key)
			if left := s.left(now, l.skew); left > 0 && !live {
				return change{}, stores.Held(old, max(left, time.Millisecond))
			}
		}
		at := l.at(s, now)
		next, raised := seed.Raise(old, time.UnixMilli(at).UTC())
		if !raised {
			unchanged = old
			return change{}, errUnchanged
		}
		return change{entry: entry{Op: messages.OpReseed, Owner: next.Owner, Epoch: next.Epoch, TTLMS: next.TTL.Milliseconds(),
			EndMS: at, Floor: next.Floor, Lineage: next.Lineage}, at: at}, nil
	})
	if errors.Is(err, errUnchanged) {
		return unchanged, nil
	}
	return lease, err
}

// errUnchanged is how a decision says that there is nothing to write.
var errUnchanged = errors.New("unchanged")

func (l *Leases) holders(ctx context.Context, key messages.Key, owner string, epoch uint64, op string) error {
	if err := stores.ValidateHolder(key, owner); err != nil {
		return err
	}
	_, err := l.update(ctx, key, &claim{owner, epoch}, func(s sighting, now time.Time) (change, error) {
		left, err := l.holder(s, key, owner, epoch, now)
		if err != nil {
			return change{}, err
		}
		c := l.change(s, op, now)
		switch {
		case op == messages.OpRelease:
			c.entry.EndMS = c.at
			return c, nil
		case op == messages.OpForget:
			c.entry.Floor = epoch
		case c.entry.Lineage <= c.entry.Floor:
			c.entry.Lineage = epoch
		}
		c.span = left
		return c, nil
	})
	return err
}

// change begins a change of the current lease: as it is, by op, now.
func (l *Leases) change(s sighting, op string, now time.Time) change {
	e := s.rec.last()
	e.Op, e.EndMS = op, s.lease(messages.Key{}).End.UnixMilli()
	e.Log, e.Member, e.Since = "", 0, 0
	return change{entry: e, at: l.at(s, now)}
}

// at is the time of an entry that is written now: by the estimate, and never before what is there already.
func (l *Leases) at(s sighting, now time.Time) int64 {
	return max(l.clock.read(now).UnixMilli(), s.lastMS())
}

// holder returns CodeLost unless owner holds the lease at epoch, and how much is left of it: counted, as
// the holder itself counts, from when this process sent it. What another process wrote for the same owner
// says only when it will be over at the latest; then all of its span is left.
func (l *Leases) holder(s sighting, key messages.Key, owner string, epoch uint64, now time.Time) (time.Duration, error) {
	if s.rec == nil {
		return 0, stores.Holder(key, messages.Lease{}, true, owner, epoch)
	}
	lease, left := s.lease(key), s.held(now)
	over := s.left(now, l.skew) <= 0
	if !s.mine() {
		over = over || lease.End.UnixMilli() <= l.clock.read(now).UnixMilli()
	}
	if err := stores.Holder(key, lease, over, owner, epoch); err != nil {
		return 0, err
	}
	return left, nil
}

// inParallel calls do for each of in, a bounded number at a time, and returns the answers in order.
func inParallel[A, B any](ctx context.Context, in []A, do func(context.Context, A) (B, error)) ([]B, error) {
	out := make([]B, len(in))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, a := range in {
		group.Go(func() (err error) {
			out[i], err = do(ctx, a)
			return err
		})
	}
	return out, group.Wait()
}
