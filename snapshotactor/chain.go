package snapshotactor

import (
	"context"
	"math"

	"github.com/leasehold/leasehold/messages"
)

// wholeEpoch is the upTo of a chain's newest epoch: all its snapshots belong to the lineage.
const wholeEpoch = math.MaxUint64

// link is one epoch of the live lineage.
type link struct {
	epoch uint64
	base  messages.Base
	// upTo is the last snapshot of the epoch that belongs to the lineage: the one that the next
	// epoch began with. What an epoch uploaded after that is no part of any state.
	upTo uint64
}

// chain follows the pins down from the pinned epoch top, newest first. It ends at the empty ledger, at
// the floor, or where retention has deleted the pin of an epoch.
func chain(ctx context.Context, l listing, read smallReader, top, floor uint64) ([]link, error) {
	var links []link
	for epoch, upTo := top, uint64(wholeEpoch); epoch > floor; {
		if !l.hasBase(epoch) {
			// An older epoch without its pin: its snapshot is known to belong to the lineage, and
			// nothing before it is.
			if epoch != top {
				links = append(links, link{epoch: epoch, upTo: upTo})
			}
			return links, nil
		}
		b, sealed, err := read.base(ctx, l, epoch)
		if err != nil {
			return links, err
		}
		if sealed {
			return links, nil
		}
		links = append(links, link{epoch: epoch, base: b, upTo: upTo})
		epoch, upTo = b.From.Epoch, b.From.Snapshot
	}
	return links, nil
}

// liveHead returns the highest pinned epoch above the floor; 0: none.
func liveHead(ctx context.Context, l listing, read smallReader, floor uint64) (uint64, error) {
	epochs := l.ascending()
	for i := len(epochs) - 1; i >= 0 && epochs[i] > floor; i-- {
		if !l.hasBase(epochs[i]) {
			continue
		}
		_, sealed, err := read.base(ctx, l, epochs[i])
		if err != nil {
			return 0, err
		}
		if !sealed {
			return epochs[i], nil
		}
	}
	return 0, nil
}
