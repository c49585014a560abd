package storetest

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// FaultyLeases is a lease store in front of another one that fails as it is told to (see Faults). It
// passes stores.BatchRenewer and stores.LeaseLister on. In front of a store without the first it renews one by one; without
// the second, Leases and Forgotten answer CodeInvalidArgument; and without stores.DeploymentKeeper so do Deployment and
// SetDeployment.
type FaultyLeases struct {
	Faults
	inner stores.LeaseStore
}

var (
	_ stores.LeaseStore       = (*FaultyLeases)(nil)
	_ stores.BatchRenewer     = (*FaultyLeases)(nil)
	_ stores.LeaseLister      = (*FaultyLeases)(nil)
	_ stores.DeploymentKeeper = (*FaultyLeases)(nil)
)

// NewFaultyLeases wraps a lease store. Until it is told otherwise, every call passes.
func NewFaultyLeases(inner stores.LeaseStore) *FaultyLeases {
	f := &FaultyLeases{inner: inner}
	f.init()
	return f
}

// Inner returns the real store.
func (f *FaultyLeases) Inner() stores.LeaseStore { return f.inner }

func leaseCall(op Op, key messages.Key) Call { return Call{Op: op, Key: key.String(), lease: key} }

// Read implements stores.LeaseStore.
func (f *FaultyLeases) Read(ctx context.Context, key messages.Key) (messages.Lease, bool, error) {
	r := f.do(ctx, leaseCall(OpRead, key), func(ctx context.Context, c Call) (r Result) {
		r.Lease, r.OK, r.Err = f.inner.Read(ctx, c.lease)
		return r
	})
	return r.Lease, r.OK, r.Err
}

// Acquire implements stores.LeaseStore.
func (f *FaultyLeases) Acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error) {
	call := leaseCall(OpAcquire, key)
	call.Owner, call.TTL = owner, ttl
	r := f.do(ctx, call, func(ctx context.Context, c Call) (r Result) {
		r.Lease, r.Err = f.inner.Acquire(ctx, c.lease, c.Owner, c.TTL)
		return r
	})
	return r.Lease, r.Err
}

// Renew implements stores.LeaseStore.
func (f *FaultyLeases) Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error) {
	call := leaseCall(OpRenew, key)
	call.Owner, call.Epoch, call.TTL = owner, epoch, ttl
	r := f.do(ctx, call, func(ctx context.Context, c Call) (r Result) {
		r.Lease, r.Err = f.inner.Renew(ctx, c.lease, c.Owner, c.Epoch, c.TTL)
		return r
	})
	return r.Lease, r.Err
}

// RenewMany implements stores.BatchRenewer. It is one call, OpRenewMany, whatever the real store does.
func (f *FaultyLeases) RenewMany(ctx context.Context, renewals []stores.Renewal) ([]stores.RenewalResult, error) {
	r := f.do(ctx, Call{Op: OpRenewMany, Renewals: renewals}, func(ctx context.Context, c Call) (r Result) {
		if batch, ok := f.inner.(stores.BatchRenewer); ok {
			r.Renewals, r.Err = batch.RenewMany(ctx, c.Renewals)
			return r
		}
		for _, x := range c.Renewals {
			lease, err := f.inner.Renew(ctx, x.Key, x.Owner, x.Epoch, x.TTL)
			r.Renewals = append(r.Renewals, stores.RenewalResult{Lease: lease, Err: err})
		}
		return r
	})
	return r.Renewals, r.Err
}

// Release implements stores.LeaseStore.
func (f *FaultyLeases) Release(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return f.holder(ctx, OpRelease, key, owner, epoch, f.inner.Release)
}

// MarkForgotten implements stores.LeaseStore.
func (f *FaultyLeases) MarkForgotten(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return f.holder(ctx, OpForget, key, owner, epoch, f.inner.MarkForgotten)
}

// MarkLineage implements stores.LeaseStore.
func (f *FaultyLeases) MarkLineage(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return f.holder(ctx, OpLineage, key, owner, epoch, f.inner.MarkLineage)
}

// holder is an operation of a lease's holder that answers nothing but whether it was done.
func (f *FaultyLeases) holder(ctx context.Context, op Op, key messages.Key, owner string, epoch uint64, to func(context.Context, messages.Key, string, uint64) error) error {
	call := leaseCall(op, key)
	call.Owner, call.Epoch = owner, epoch
	return f.do(ctx, call, func(ctx context.Context, c Call) Result {
		return Result{Err: to(ctx, c.lease, c.Owner, c.Epoch)}
	}).Err
}

// History implements stores.LeaseStore.
func (f *FaultyLeases) History(ctx context.Context, key messages.Key) ([]messages.LeaseEntry, error) {
	r := f.do(ctx, leaseCall(OpHistory, key), func(ctx context.Context, c Call) (r Result) {
		r.Entries, r.Err = f.inner.History(ctx, c.lease)
		return r
	})
	return r.Entries, r.Err
}

// Leases implements stores.LeaseLister.
func (f *FaultyLeases) Leases(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return f.list(ctx, OpLeases, after, limit, stores.LeaseLister.Leases)
}

// Forgotten implements stores.LeaseLister.
func (f *FaultyLeases) Forgotten(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return f.list(ctx, OpForgotten, after, limit, stores.LeaseLister.Forgotten)
}

type listMethod func(stores.LeaseLister, context.Context, string, int) ([]messages.Lease, error)

func (f *FaultyLeases) list(ctx context.Context, op Op, after string, limit int, method listMethod) ([]messages.Lease, error) {
	r := f.do(ctx, Call{Op: op, Key: after, Limit: limit}, func(ctx context.Context, c Call) (r Result) {
		lister, ok := f.inner.(stores.LeaseLister)
		if !ok {
			return Result{Err: &messages.Error{Code: messages.CodeInvalidArgument, Message: "the wrapped lease store lists nothing"}}
		}
		r.Leases, r.Err = method(lister, ctx, c.Key, c.Limit)
		return r
	})
	return r.Leases, r.Err
}

// Deployment implements stores.DeploymentKeeper.
func (f *FaultyLeases) Deployment(ctx context.Context) (string, error) {
	return f.deployment(ctx, Call{Op: OpDeployment}, func(ctx context.Context, k stores.DeploymentKeeper, _ Call) (string, error) { return k.Deployment(ctx) })
}

// SetDeployment implements stores.DeploymentKeeper.
func (f *FaultyLeases) SetDeployment(ctx context.Context, identity string) (string, error) {
	return f.deployment(ctx, Call{Op: OpSetDeployment, Key: identity}, func(ctx context.Context, k stores.DeploymentKeeper, c Call) (string, error) {
		return k.SetDeployment(ctx, c.Key)
	})
}

func (f *FaultyLeases) deployment(ctx context.Context, call Call, method func(context.Context, stores.DeploymentKeeper, Call) (string, error)) (string, error) {
	r := f.do(ctx, call, func(ctx context.Context, c Call) (r Result) {
		keeper, ok := f.inner.(stores.DeploymentKeeper)
		if !ok {
			return Result{Err: &messages.Error{Code: messages.CodeInvalidArgument, Message: "the wrapped lease store carries no identity"}}
		}
		r.Identity, r.Err = method(ctx, keeper, c)
		return r
	})
	return r.Identity, r.Err
}

// Reseed implements stores.Reseeder.
func (f *FaultyLeases) Reseed(ctx context.Context, seed stores.Seed, live bool) (messages.Lease, error) {
	call := leaseCall(OpReseed, seed.Key)
	call.Epoch = seed.Epoch
	r := f.do(ctx, call, func(ctx context.Context, _ Call) (r Result) {
		store, ok := f.inner.(stores.Reseeder)
		if !ok {
			return Result{Err: &messages.Error{Code: messages.CodeInvalidArgument, Message: "the wrapped lease store cannot be reseeded"}}
		}
		r.Lease, r.Err = store.Reseed(ctx, seed, live)
		return r
	})
	return r.Lease, r.Err
}
