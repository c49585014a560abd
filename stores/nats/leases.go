package nats

import (
	"context"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

const (
	// maxTogether is how many requests travel in one round trip. A server drops what goes far beyond.
	maxTogether = 1000
	// maxCached bounds the views that are kept: of leases that this store granted or renewed.
	maxCached = 1 << 16
)

// Leases is a lease store on a JetStream key-value bucket. It is safe for concurrent use, and for use
// together with other Leases of the same cluster, in this and in other processes.
type Leases struct {
	link     *link
	names    names
	replicas int

	mu sync.Mutex
	// views of keys whose lease was last granted or renewed here. They spare a renewal the round trip of a read; a
	// wrong one costs a round trip and nothing else, because every write is a compare-and-set.
	views map[messages.Key]view
}

var (
	_ stores.LeaseStore       = (*Leases)(nil)
	_ stores.BatchRenewer     = (*Leases)(nil)
	_ stores.LeaseLister      = (*Leases)(nil)
	_ stores.Reseeder         = (*Leases)(nil)
	_ stores.DeploymentKeeper = (*Leases)(nil)
)

// OpenLeases opens the lease store of a cluster, and creates its bucket if there is none. The errors are
// CodeInvalidArgument for a Config that can never work; CodeCorrupt for a bucket whose settings could lose
// records or show old ones; CodeUnavailable if the servers do not answer, or have no room.
func OpenLeases(ctx context.Context, cfg Config) (*Leases, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l, err := newLink(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Leases{link: l, names: leaseNames(cfg.Cluster), replicas: cfg.Replicas, views: map[messages.Key]view{}}
	if err := l.ensureStream(ctx, leaseStream(s.names, cfg), checkLeaseStream); err != nil {
		l.close()
		return nil, err
	}
	return s, nil
}

// String says which bucket it is.
func (s *Leases) String() string { return "NATS bucket " + s.names.stream }

// Close closes the store, and its connection unless it was Config.Conn. Operations after it, and those that
// wait, are CodeClosed. Closing twice is fine.
func (s *Leases) Close() error {
	s.link.close()
	return nil
}

// RoundTrips returns how many round trips to the servers the store has made.
func (s *Leases) RoundTrips() int64 { return s.link.roundTrips.Load() }

// run takes attempts through their steps, all together, until each is done or ctx ends.
func (s *Leases) run(ctx context.Context, attempts []*attempt) {
	p := s.link.patience()
	var last error
	for {
		open := attempts[:0:0]
		for _, a := range attempts {
			if a.phase != phaseDone {
				open = append(open, a)
			}
		}
		if len(open) == 0 {
			return
		}
		requests := make([]*natsgo.Msg, len(open))
		for i, a := range open {
			requests[i] = a.request(s.link)
		}
		replies, err := s.link.exchange(ctx, requests, p.try)
		if err != nil {
			last = err
		}
		pause := false
		for i, a := range open {
			again, err := a.answer(replies[i])
			if err != nil {
				last = err
			}
			pause = pause || again
		}
		if ctx.Err() == nil && !pause {
			continue
		}
		if p.wait(ctx) != nil {
			for _, a := range open {
				if a.phase != phaseDone {
					a.finish(nil, s.link.gaveUp(ctx, last))
				}
			}
			return
		}
	}
}

func (s *Leases) attempt(key messages.Key, want proposal) *attempt {
	a := &attempt{names: s.names, key: key, want: want, replicas: s.replicas}
	if want.Op == opRead || want.Op == messages.OpAcquire || want.Op == messages.OpReseed {
		return a
	}
	s.mu.Lock()
	v, ok := s.views[key]
	s.mu.Unlock()
	if ok {
		a.cur = v
		a.decide()
	}
	return a
}

// settle keeps or forgets the view of a key after an attempt.
func (s *Leases) settle(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.granted || a.want.Op == messages.OpRelease || a.want.Op == messages.OpReseed {
		if a.want.Op != opRead && a.want.Op != messages.OpAcquire {
			delete(s.views, a.key)
		}
		return
	}
	if len(s.views) >= maxCached {
		clear(s.views)
	}
	s.views[a.key] = a.cur
}

// do runs one operation.
func (s *Leases) do(ctx context.Context, key messages.Key, want proposal) (*attempt, error) {
	ctx, cancel, err := s.link.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	a := s.attempt(key, want)
	s.run(ctx, []*attempt{a})
	s.settle(a)
	return a, a.err
}

// Read implements stores.LeaseStore.
func (s *Leases) Read(ctx context.Context, key messages.Key) (messages.Lease, bool, error) {
	if err := key.Validate(); err != nil {
		return messages.Lease{}, false, err
	}
	a, err := s.do(ctx, key, proposal{Op: opRead})
	if err != nil || a.after == nil {
		return messages.Lease{}, false, err
	}
	return a.after.lease(key), true, nil
}

// Acquire implements stores.LeaseStore.
func (s *Leases) Acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error) {
	if err := (stores.Renewal{Key: key, Owner: owner, TTL: ttl}).Validate(); err != nil {
		return messages.Lease{}, err
	}
	return s.granted(ctx, key, proposal{Op: messages.OpAcquire, Owner: owner, TTL: ttl})
}

// Renew implements stores.LeaseStore. A renewal with a shorter ttl does not move the end back.
func (s *Leases) Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error) {
	if err := (stores.Renewal{Key: key, Owner: owner, TTL: ttl}).Validate(); err != nil {
		return messages.Lease{}, err
	}
	return s.granted(ctx, key, proposal{Op: messages.OpRenew, Owner: owner, Epoch: epoch, TTL: ttl})
}

func (s *Leases) granted(ctx context.Context, key messages.Key, want proposal) (messages.Lease, error) {
	a, err := s.do(ctx, key, want)
	if err != nil {
		return messages.Lease{}, err
	}
	return a.after.lease(key), nil
}

// RenewMany implements stores.BatchRenewer: two round trips for every thousand renewals of leases that
// this store granted or renewed last, three for others. A renewal that a server does not answer in time fails alone.
func (s *Leases) RenewMany(ctx context.Context, renewals []stores.Renewal) ([]stores.RenewalResult, error) {
	if len(renewals) == 0 {
		return nil, nil
	}
	ctx, cancel, err := s.link.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	results := make([]stores.RenewalResult, len(renewals))
	for from := 0; from < len(renewals); from += maxTogether {
		var attempts []*attempt
		var index []int
		for i := from; i < min(from+maxTogether, len(renewals)); i++ {
			r := renewals[i]
			if results[i].Err = r.Validate(); results[i].Err == nil {
				attempts = append(attempts, s.attempt(r.Key, proposal{Op: messages.OpRenew, Owner: r.Owner, Epoch: r.Epoch, TTL: r.TTL}))
				index = append(index, i)
			}
		}
		s.run(ctx, attempts)
		for j, a := range attempts {
			s.settle(a)
			if results[index[j]].Err = a.err; a.err == nil {
				results[index[j]].Lease = a.after.lease(a.key)
			}
		}
	}
	return results, nil
}

// Release implements stores.LeaseStore.
func (s *Leases) Release(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return s.end(ctx, key, proposal{Op: messages.OpRelease, Owner: owner, Epoch: epoch})
}

// MarkForgotten implements stores.LeaseStore.
func (s *Leases) MarkForgotten(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return s.end(ctx, key, proposal{Op: messages.OpForget, Owner: owner, Epoch: epoch})
}

// MarkLineage implements stores.LeaseStore.
func (s *Leases) MarkLineage(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return s.end(ctx, key, proposal{Op: messages.OpLineage, Owner: owner, Epoch: epoch})
}

// Reseed implements stores.Reseeder.
func (s *Leases) Reseed(ctx context.Context, seeded stores.Seed, live bool) (messages.Lease, error) {
	if err := seeded.Validate(); err != nil {
		return messages.Lease{}, err
	}
	a, err := s.do(ctx, seeded.Key, proposal{Op: messages.OpReseed, Owner: stores.ReseedOwner,
		Seed: &seed{Epoch: seeded.Epoch, Floor: seeded.Floor, Lineage: seeded.Lineage, Live: live}})
	if err != nil || a.after == nil {
		return messages.Lease{}, err
	}
	return a.after.lease(seeded.Key), nil
}

func (s *Leases) end(ctx context.Context, key messages.Key, want proposal) error {
	if err := stores.ValidateHolder(key, want.Owner); err != nil {
		return err
	}
	_, err := s.do(ctx, key, want)
	return err
}
