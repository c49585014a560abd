package storetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// OverwritingPut is a durable store whose put replaces what is there and says "created". It fails
// the checks F1 and F6.
func OverwritingPut(real stores.DurableStore) stores.DurableStore { return overwritingPut{real} }

type overwritingPut struct{ stores.DurableStore }

func (s overwritingPut) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	for {
		created, err := s.DurableStore.PutIfAbsent(ctx, key, data)
		if created || err != nil {
			return created, err
		}
		if _, err := s.Delete(ctx, key); err != nil {
			return false, err
		}
	}
}

// EmptyForAbsent is a durable store that reads an absent key as an empty object. It fails F2.
func EmptyForAbsent(real stores.DurableStore) stores.DurableStore { return emptyForAbsent{real} }

type emptyForAbsent struct{ stores.DurableStore }

func (s emptyForAbsent) Get(ctx context.Context, key string, most int64) ([]byte, bool, error) {
	data, _, err := s.DurableStore.Get(ctx, key, most)
	return data, err == nil, err
}

// TruncatingPut is a durable store that cuts an object at 1 MiB. It fails F3.
func TruncatingPut(real stores.DurableStore) stores.DurableStore { return truncatingPut{real} }

type truncatingPut struct{ stores.DurableStore }

func (s truncatingPut) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	return s.DurableStore.PutIfAbsent(ctx, key, data[:min(len(data), 1<<20)])
}

// UnboundedGet is a durable store that returns an object whatever its size is. It fails F.bound.
func UnboundedGet(real stores.DurableStore) stores.DurableStore { return unboundedGet{real} }

type unboundedGet struct{ stores.DurableStore }

func (s unboundedGet) Get(ctx context.Context, key string, _ int64) ([]byte, bool, error) {
	return s.DurableStore.Get(ctx, key, math.MaxInt64)
}

// UnsortedList is a durable store that lists in another order. It fails F4.
func UnsortedList(real stores.DurableStore) stores.DurableStore { return unsortedList{real} }

type unsortedList struct{ stores.DurableStore }

func (s unsortedList) List(ctx context.Context, prefix string) ([]string, error) {
	keys, err := s.DurableStore.List(ctx, prefix)
	slices.Reverse(keys)
	return keys, err
}

// MiscountingDelete is a durable store whose delete of a prefix leaves the last object. It fails F5 and F8, and F.race if a put meets a delete.
func MiscountingDelete(real stores.DurableStore) stores.DurableStore { return miscountingDelete{real} }

type miscountingDelete struct{ stores.DurableStore }

func (s miscountingDelete) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	if err := stores.ValidateDeletePrefix(prefix); err != nil {
		return 0, err
	}
	keys, err := s.List(ctx, prefix)
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	for _, key := range keys[:len(keys)-1] {
		if _, err := s.Delete(ctx, key); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}

// CheckThenPut is a durable store that looks whether a key is absent and then writes: two steps, as with a
// plain rename, or an object store without conditional writes. It fails F6.
func CheckThenPut(real stores.DurableStore) stores.DurableStore { return checkThenPut{real} }

type checkThenPut struct{ stores.DurableStore }

// window is how long CheckThenPut keeps its two steps apart, and TornPut shows a part.
const window = 10 * time.Millisecond

func (s checkThenPut) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	if _, ok, err := s.Get(ctx, key, math.MaxInt64); ok || err != nil {
		return false, err
	}
	if wait(ctx, window, nil) != nil {
		return false, timedOut(ctx)
	}
	return overwritingPut(s).PutIfAbsent(ctx, key, data)
}

// UncheckedKeys is a durable store that takes malformed keys and prefixes. It fails F7, and F8.
func UncheckedKeys(real stores.DurableStore) stores.DurableStore { return uncheckedKeys{real} }

type uncheckedKeys struct{ stores.DurableStore }

func accept(err error) error {
	if errors.Is(err, messages.ErrOutOfRange) {
		return nil
	}
	return err
}

func (s uncheckedKeys) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	created, err := s.DurableStore.PutIfAbsent(ctx, key, data)
	return created, accept(err)
}

func (s uncheckedKeys) Get(ctx context.Context, key string, most int64) ([]byte, bool, error) {
	data, ok, err := s.DurableStore.Get(ctx, key, most)
	return data, ok, accept(err)
}

func (s uncheckedKeys) List(ctx context.Context, prefix string) ([]string, error) {
	keys, err := s.DurableStore.List(ctx, prefix)
	return keys, accept(err)
}

func (s uncheckedKeys) Delete(ctx context.Context, key string) (bool, error) {
	deleted, err := s.DurableStore.Delete(ctx, key)
	return deleted, accept(err)
}

func (s uncheckedKeys) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	n, err := s.DurableStore.DeletePrefix(ctx, prefix)
	return n, accept(err)
}

// DeleteByText is a durable store that deletes every key that begins with the text of a prefix. It fails F8.
func DeleteByText(real stores.DurableStore) stores.DurableStore { return deleteByText{real} }

type deleteByText struct{ stores.DurableStore }

func (s deleteByText) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	if stores.ValidateDeletePrefix(prefix) == nil {
		return s.DurableStore.DeletePrefix(ctx, prefix)
	}
	if strings.HasSuffix(prefix, "/") || prefix == "" {
		return 0, stores.ValidateDeletePrefix(prefix)
	}
	keys, err := s.List(ctx, prefix)
	if err != nil {
		return 0, err
	}
	for _, key := range keys {
		if _, err := s.Delete(ctx, key); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}

// TornPut is a durable store in which an object can be seen before it is whole. It fails F.torn.
func TornPut(real stores.DurableStore) stores.DurableStore { return tornPut{real} }

type tornPut struct{ stores.DurableStore }

func (s tornPut) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	// Half of it under the name, and then the rest: as a store that writes in place.
	created, err := s.DurableStore.PutIfAbsent(ctx, key, data[:len(data)/2])
	if !created || err != nil {
		return created, err
	}
	if wait(ctx, window, nil) != nil {
		return false, timedOut(ctx)
	}
	_, err = overwritingPut(s).PutIfAbsent(ctx, key, data)
	return err == nil, err
}
