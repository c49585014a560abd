package storetest

import (
	"context"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/stores"
)

// FaultyDurable is a durable store in front of another one that fails as it is told to (see Faults).
type FaultyDurable struct {
	Faults
	inner stores.DurableStore
}

var _ stores.DurableStore = (*FaultyDurable)(nil)

// NewFaultyDurable wraps a durable store. Until it is told otherwise, every call passes.
func NewFaultyDurable(inner stores.DurableStore) *FaultyDurable {
	f := &FaultyDurable{inner: inner}
	f.init()
	return f
}

// Inner returns the real store.
func (f *FaultyDurable) Inner() stores.DurableStore { return f.inner }

// ConflictNext lets somebody else be faster at the next put whose key ends in suffix ("" for any): other
// bytes are really in the store under its key, and the put is answered "already there".
func (f *FaultyDurable) ConflictNext(suffix string, other []byte) {
	other = slices.Clone(other)
	f.Add(func(c Call) bool { return c.Op == OpPut && strings.HasSuffix(c.Key, suffix) }, 1, func(c Call) Action {
		// Not through f: it is somebody else's call. No context of ours governs it either.
		if _, err := f.inner.PutIfAbsent(context.Background(), c.Key, other); err != nil {
			return Fail(err)
		}
		return Pass()
	})
}

// PutIfAbsent implements stores.DurableStore.
func (f *FaultyDurable) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	r := f.do(ctx, Call{Op: OpPut, Key: key, Data: data}, func(ctx context.Context, c Call) (r Result) {
		r.OK, r.Err = f.inner.PutIfAbsent(ctx, c.Key, c.Data)
		return r
	})
	return r.OK, r.Err
}

// Get implements stores.DurableStore.
func (f *FaultyDurable) Get(ctx context.Context, key string, most int64) ([]byte, bool, error) {
	r := f.do(ctx, Call{Op: OpGet, Key: key}, func(ctx context.Context, c Call) (r Result) {
		r.Data, r.OK, r.Err = f.inner.Get(ctx, c.Key, most)
		return r
	})
	return r.Data, r.OK, r.Err
}

// List implements stores.DurableStore.
func (f *FaultyDurable) List(ctx context.Context, prefix string) ([]string, error) {
	r := f.do(ctx, Call{Op: OpList, Key: prefix}, func(ctx context.Context, c Call) (r Result) {
		r.Keys, r.Err = f.inner.List(ctx, c.Key)
		return r
	})
	return r.Keys, r.Err
}

// Delete implements stores.DurableStore.
func (f *FaultyDurable) Delete(ctx context.Context, key string) (bool, error) {
	r := f.do(ctx, Call{Op: OpDelete, Key: key}, func(ctx context.Context, c Call) (r Result) {
		r.OK, r.Err = f.inner.Delete(ctx, c.Key)
		return r
	})
	return r.OK, r.Err
}

// DeletePrefix implements stores.DurableStore.
func (f *FaultyDurable) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	r := f.do(ctx, Call{Op: OpDeletePrefix, Key: prefix}, func(ctx context.Context, c Call) (r Result) {
		r.Count, r.Err = f.inner.DeletePrefix(ctx, c.Key)
		return r
	})
	return r.Count, r.Err
}
