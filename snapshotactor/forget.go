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
// store must have recorded the floor BEFORE. It returns how many objects are gone, goes on after a
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
	return count, errors.Join(failed...)
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
