package replica

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// leases is the lease store as the replica's node sees it: every call passes a gate, and is recorded with
// the time it was sent. A process that is stopped inside of a transaction would hold the lease file's
// lock for everybody; the gate is how the drill avoids that.
type leases struct {
	stores.LeaseStore
	stores.DeploymentKeeper // of the engine's store, also where the LeaseStore is a broken one
	gate                    *gate
	log                     *record.Writer
}

var _ stores.BatchRenewer = (*leases)(nil)

func (s *leases) note(op string, key messages.Key, sent int64, epoch uint64, err error) {
	_ = s.log.Write(record.Line{Kind: record.LeaseCall, Op: op, Key: key.String(), Since: sent, Epoch: epoch, Code: messages.CodeOf(err)})
}

// Acquire implements stores.LeaseStore. Refusals are recorded by the one who asked.
func (s *leases) Acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error) {
	if err := s.gate.enter(ctx); err != nil {
		return messages.Lease{}, err
	}
	defer s.gate.leave()
	sent := record.Now()
	lease, err := s.LeaseStore.Acquire(ctx, key, owner, ttl)
	if messages.CodeOf(err) != messages.CodeHeld {
		s.note(messages.OpAcquire, key, sent, lease.Epoch, err)
	}
	return lease, err
}

// Renew implements stores.LeaseStore.
func (s *leases) Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error) {
	if err := s.gate.enter(ctx); err != nil {
		return messages.Lease{}, err
	}
	defer s.gate.leave()
	sent := record.Now()
	lease, err := s.LeaseStore.Renew(ctx, key, owner, epoch, ttl)
	s.note(messages.OpRenew, key, sent, epoch, err)
	return lease, err
}

// RenewMany implements stores.BatchRenewer.
func (s *leases) RenewMany(ctx context.Context, renewals []stores.Renewal) ([]stores.RenewalResult, error) {
	batch, ok := s.LeaseStore.(stores.BatchRenewer)
	if !ok {
		results := make([]stores.RenewalResult, len(renewals))
		for i, r := range renewals {
			results[i].Lease, results[i].Err = s.Renew(ctx, r.Key, r.Owner, r.Epoch, r.TTL)
		}
		return results, nil
	}
	if err := s.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	sent := record.Now()
	results, err := batch.RenewMany(ctx, renewals)
	for i, r := range renewals {
		failed := err
		if err == nil {
			failed = results[i].Err
		}
		s.note(messages.OpRenew, r.Key, sent, r.Epoch, failed)
	}
	return results, err
}

// Release implements stores.LeaseStore.
func (s *leases) Release(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	if err := s.gate.enter(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	sent := record.Now()
	err := s.LeaseStore.Release(ctx, key, owner, epoch)
	s.note(messages.OpRelease, key, sent, epoch, err)
	return err
}
