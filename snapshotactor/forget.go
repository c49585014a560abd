package snapshotactor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// DeleteForgotten deletes every copy of the epochs up to floor, epoch by epoch and never by the
// tenant's prefix, so that a delete that lands late cannot take a later epoch's objects (S6). The lease
// store must have recorded the floor BEFORE. The durable store keeps it as well, from before the first deletion on: it is what a lease
// store that lost its records gets it back from. Older floors go; the newest never does. It returns how many objects are gone, goes on after a
// failure, and reports the failures joined; three in a row end it. Calling it again finishes the rest. Anyone may call it,
// also while a later epoch serves.
func DeleteForgotten(ctx context.Context, cfg Config, floor uint64) (count int, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return 0, err
	}
	c := caller{cfg}
	if floor == 0 {
		return 0, nil
	}
	if cfg.Planted.Has(planted.ForgetTenantPrefix) {
		return c.deletePrefix(ctx, cfg.Key.Prefix())
	}
	names, err := c.list(ctx)
	if err != nil {
		return 0, err
	}
	floors := readListing(cfg.Key, names).floors
	if !slices.ContainsFunc(floors, func(kept uint64) bool { return kept >= floor }) {
		if err := c.keepFloor(ctx, floor); err != nil {
			return 0, err
		}
	}
	var failed []error
	inARow := 0
	for _, epoch := range epochsBelow(cfg.Key, names, floor) {
		n, err := c.deletePrefix(ctx, cfg.Key.EpochPrefix(epoch))
		count += n
		inARow++
		if err == nil {
			inARow = 0
			continue
		}
		failed = append(failed, err)
		if inARow >= tooManyInARow {
			break
		}
	}
	for _, kept := range floors {
		if kept < floor { // a newer one says more
			name := cfg.Key.FloorName(kept)
			failed = append(failed, c.retry(ctx, name, func(ctx context.Context) error {
				_, err := c.Store.Delete(ctx, name)
				return err
			}))
		}
	}
	return count, errors.Join(failed...)
}

// keepFloor puts the floor into the durable store as well.
func (c caller) keepFloor(ctx context.Context, floor uint64) error {
	slot := messages.Object{Key: c.Key, Epoch: floor, Kind: messages.ObjectFloor}
	data, err := encode(messages.Floor{Kind: messages.KindFloor, Version: messages.LineageVersion, Key: c.Key.String(), Floor: floor})
	if err != nil {
		return err
	}
	put := upload{name: slot.Name(), data: data}
	theirs, err := put.land(ctx, c)
	if err == nil && theirs != nil {
		err = corrupt(slot.Name(), "is not the floor that its name says", nil)
	}
	return err
}

// Sweep deletes what landed at or below the floor after it was forgotten (S11): uploads of fenced
// holders that were under way. It does exactly what DeleteForgotten does, and is repeated: at the next
// open, and from time to time for tenants that nobody opens. A failed sweep must not stop an open.
func Sweep(ctx context.Context, cfg Config, floor uint64) (count int, err error) {
	return DeleteForgotten(ctx, cfg, floor)
}

// epochsBelow returns the epochs up to floor in whose folder anything is listed, ascending. Every
// object in there goes, also one with a name that no version of Leasehold writes.
func epochsBelow(key messages.Key, names []string, floor uint64) []uint64 {
	epochs := map[uint64]bool{}
	for _, name := range names {
		rest, mine := strings.CutPrefix(name, key.Prefix())
		folder, _, inFolder := strings.Cut(rest, "/")
		var epoch uint64
		if n, err := fmt.Sscanf(folder, "e%d", &epoch); !mine || !inFolder || n != 1 || err != nil {
			continue
		}
		// The folder must be written as we write it, else its prefix would be another one.
		if epoch > 0 && epoch <= floor && key.EpochPrefix(epoch) == key.Prefix()+folder+"/" {
			epochs[epoch] = true
		}
	}
	return slices.Sorted(maps.Keys(epochs))
}

func (c caller) deletePrefix(ctx context.Context, prefix string) (count int, err error) {
	err = c.retry(ctx, prefix, func(ctx context.Context) error {
		n, err := c.Store.DeletePrefix(ctx, prefix)
		count += n
		return err
	})
	return count, err
}
