package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// NoCompareAndSet is a lease store, in front of a real one, that grants every acquire: it evicts the holder. It fails the checks
// B.2 and B.3. It works across processes that share the real store, so the drill uses it as well (--break).
func NoCompareAndSet(real stores.LeaseStore) stores.LeaseStore { return noCompareAndSet{real} }

type noCompareAndSet struct{ stores.LeaseStore }

func (s noCompareAndSet) Acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error) {
	for {
		lease, err := s.LeaseStore.Acquire(ctx, key, owner, ttl)
		var held *messages.Error
		if !errors.As(err, &held) || held.Code != messages.CodeHeld {
			return lease, err
		}
		// The real store defends itself, so the eviction is a release in the holder's name.
		if err := s.Release(ctx, key, held.Owner, held.Epoch); err != nil && !errors.Is(err, messages.ErrLost) {
			return messages.Lease{}, err
		}
	}
}

// EpochAlwaysOne is a lease store, in front of a real one, that counts no epochs. It fails the checks
// B.6 and B.10, and the others that look at a second epoch.
func EpochAlwaysOne(real stores.LeaseStore) stores.LeaseStore { return epochAlwaysOne{real} }

type epochAlwaysOne struct{ stores.LeaseStore }

// real is the epoch that the record has, for a caller that believes in 1.
func (s epochAlwaysOne) real(ctx context.Context, key messages.Key, epoch uint64) (uint64, error) {
	lease, ok, err := s.LeaseStore.Read(ctx, key)
	if err != nil || !ok || epoch != 1 {
		return epoch + 1000, err // one that is lost
	}
	return lease.Epoch, nil
}

func one(lease messages.Lease, err error) (messages.Lease, error) {
	if err == nil {
		lease.Epoch, lease.Floor, lease.Lineage = 1, min(lease.Floor, 1), min(lease.Lineage, 1)
	}
	var held *messages.Error
	if errors.As(err, &held) && held.Lease != nil {
		held.Epoch, held.Lease.Epoch = 1, 1
	}
	return lease, err
}

func (s epochAlwaysOne) Read(ctx context.Context, key messages.Key) (messages.Lease, bool, error) {
	lease, ok, err := s.LeaseStore.Read(ctx, key)
	if ok {
		lease, err = one(lease, err)
	}
	return lease, ok, err
}

func (s epochAlwaysOne) Acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error) {
	return one(s.LeaseStore.Acquire(ctx, key, owner, ttl))
}

func (s epochAlwaysOne) Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error) {
	epoch, err := s.real(ctx, key, epoch)
	if err != nil {
		return messages.Lease{}, err
	}
	return one(s.LeaseStore.Renew(ctx, key, owner, epoch, ttl))
}

func (s epochAlwaysOne) Release(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	epoch, err := s.real(ctx, key, epoch)
	if err != nil {
		return err
	}
	return s.LeaseStore.Release(ctx, key, owner, epoch)
}

func (s epochAlwaysOne) MarkForgotten(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	epoch, err := s.real(ctx, key, epoch)
	if err != nil {
		return err
	}
	return s.LeaseStore.MarkForgotten(ctx, key, owner, epoch)
}

func (s epochAlwaysOne) MarkLineage(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	epoch, err := s.real(ctx, key, epoch)
	if err != nil {
		return err
	}
	return s.LeaseStore.MarkLineage(ctx, key, owner, epoch)
}

func (s epochAlwaysOne) History(ctx context.Context, key messages.Key) ([]messages.LeaseEntry, error) {
	trail, err := s.LeaseStore.History(ctx, key)
	for i := range trail {
		trail[i].Epoch = 1
	}
	return trail, err
}

// RenewsForAnybody is a lease store, in front of a real one, that does not look who renews. It fails
// the checks B.5 and B.6.
func RenewsForAnybody(real stores.LeaseStore) stores.LeaseStore { return renewsForAnybody{real} }

type renewsForAnybody struct{ stores.LeaseStore }

func (s renewsForAnybody) Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error) {
	lease, ok, err := s.Read(ctx, key)
	if err != nil {
		return messages.Lease{}, err
	}
	if ok {
		owner, epoch = lease.Owner, lease.Epoch
	}
	return s.LeaseStore.Renew(ctx, key, owner, epoch, ttl)
}

// ForgetsLineages is a lease store, in front of a real one, that takes every mark of a lineage and keeps none. It fails the check
// B.lineage.
func ForgetsLineages(real stores.LeaseStore) stores.LeaseStore { return forgetsLineages{real} }

type forgetsLineages struct{ stores.LeaseStore }

func (s forgetsLineages) MarkLineage(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	lease, ok, err := s.Read(ctx, key)
	if err == nil && (!ok || lease.Owner != owner || lease.Epoch != epoch) {
		err = stores.Lost(key, lease, stores.OtherOwner)
	}
	return err
}
