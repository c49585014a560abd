package snapshotactor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// plan says what an epoch begins with, and what must be sealed before that is pinned.
type plan struct {
	// head is the pinned epoch that is followed; 0: none.
	head uint64
	// manifest describes the image to restore; nil: the empty ledger.
	manifest *messages.Manifest
	// seals are the slots that must not be taken by a paused predecessor any more.
	seals []messages.Object
	// own is the pin of this very epoch, where the planted fault adopt-own-base adopts it.
	own *messages.Base
}

// from returns the state that the plan restores.
func (p plan) from() messages.Position {
	if p.manifest == nil {
		return messages.Position{}
	}
	return messages.Position{Epoch: p.manifest.Epoch, Snapshot: p.manifest.Snapshot}
}

// makePlan is the restore algorithm (steps 2 to 4 and 6 of docs/protocol.md, "Open"). It depends on
// its arguments only: the listing, what read returns for small objects in it, the granted epoch and
// the floor of the same grant.
//
// Its errors: CodeLineageAhead for a pin at or above epoch; CodeCorrupt for an object that is needed
// and gone or malformed; CodeInvalidArgument for one that only a newer version can apply.
func makePlan(ctx context.Context, l listing, read smallReader, epoch, floor uint64, faults planted.Set) (plan, error) {
	if faults.Has(planted.IgnoreFloor) {
		floor = 0
	}
	// 2. Nobody else may have been here. A seal counts too: only a later epoch puts one.
	if faults.Has(planted.AdoptOwnBase) && l.hasBase(epoch) {
		if b, sealed, err := read.base(ctx, l, epoch); err == nil && !sealed {
			m, err := namedState(ctx, l, read, b, floor)
			return plan{head: epoch, manifest: m, own: &b}, err
		}
	}
	if e := l.highestBase(); e >= epoch {
		o := l.object(messages.ObjectBase, e, 0)
		data, _, err := read(ctx, o.Name()) // what is gone by now was there all the same
		if err != nil && !errors.Is(err, messages.ErrCorrupt) {
			return plan{}, err
		}
		return plan{}, ahead(o, data, epoch)
	}
	// 3. The head is the highest pinned epoch below, and above the floor.
	p := plan{}
	var base messages.Base
	var unpinned []uint64
	for e := epoch - 1; e > floor; e-- {
		if !l.hasBase(e) {
			unpinned = append(unpinned, e)
		}
		if faults.Has(planted.NewestObject) { // pins are not looked at
			if len(l.at(e).manifests) == 0 {
				continue
			}
			p.head = e
			break
		}
		if !l.hasBase(e) {
			continue
		}
		b, sealed, err := read.base(ctx, l, e)
		if err != nil {
			return plan{}, err
		}
		if !sealed {
			p.head, base = e, b
			break
		}
	}
	for _, e := range slices.Backward(unpinned) {
		p.seals = append(p.seals, l.object(messages.ObjectBase, e, 0))
	}
	if p.head == 0 {
		return p, nil
	}
	// 4. In the head: its newest snapshot, else exactly what its base names.
	newest, err := newestSnapshot(ctx, l, read, p.head, faults)
	if err != nil {
		return plan{}, err
	}
	next := uint64(1)
	if newest != nil {
		next = newest.Snapshot + 1
		if newest.Base != base.From && base.Kind != "" {
			return plan{}, corrupt(l.key.ManifestName(p.head, newest.Snapshot), "does not repeat the base of its epoch", nil)
		}
		p.manifest = newest
	} else if p.manifest, err = namedState(ctx, l, read, base, floor); err != nil {
		return plan{}, err
	}
	// The image covers no increment (decodeManifest sees to that), so the chain goes on at 1.
	if err := noIncrement(ctx, l, read, p.head, 1); err != nil {
		return plan{}, err
	}
	// 6. The slots that the predecessor would use next. What is listed there is a seal already.
	if !l.hasIncrement(p.head, 1) {
		p.seals = append(p.seals, l.object(messages.ObjectIncrement, p.head, 1))
	}
	if !l.hasManifest(p.head, next) {
		p.seals = append(p.seals, l.object(messages.ObjectManifest, p.head, next))
	}
	return p, nil
}

// newestSnapshot returns the manifest with the highest number in an epoch that is not a seal, or nil.
// Numbers below it may be missing: retention deletes one object at a time.
func newestSnapshot(ctx context.Context, l listing, read smallReader, epoch uint64, faults planted.Set) (*messages.Manifest, error) {
	numbers := slices.Clone(l.at(epoch).manifests)
	if faults.Has(planted.NumbersAsText) {
		slices.SortFunc(numbers, func(a, b uint64) int {
			return strings.Compare(l.key.ManifestName(epoch, a), l.key.ManifestName(epoch, b))
		})
	}
	for _, n := range slices.Backward(numbers) {
		m, sealed, err := read.manifest(ctx, l, epoch, n)
		if err != nil {
			return nil, err
		}
		if !sealed {
			return &m, nil
		}
	}
	return nil, nil
}

// namedState returns the manifest of the state that a base names; nil: the empty ledger. It ends,
// because decodeBase takes only bases that name an earlier epoch.
func namedState(ctx context.Context, l listing, read smallReader, b messages.Base, floor uint64) (*messages.Manifest, error) {
	for {
		f, name := b.From, l.key.BaseName(b.Epoch)
		switch {
		case f.IsEmpty():
			return nil, nil
		case f.Epoch <= floor:
			return nil, corrupt(name, fmt.Sprintf("names %v, which is forgotten up to epoch %d", f, floor), nil)
		case f.Increment != 0:
			return nil, unsupported(name, fmt.Sprintf("it names increment %d of epoch %d", f.Increment, f.Epoch))
		case f.Snapshot != 0:
			m, sealed, err := read.manifest(ctx, l, f.Epoch, f.Snapshot)
			if err == nil && sealed {
				err = corrupt(name, fmt.Sprintf("names %v, which is a seal", f), nil)
			}
			return &m, err
		}
		// Not written by this version, which names the snapshot itself; understood all the same.
		next, sealed, err := read.base(ctx, l, f.Epoch)
		if err != nil {
			return nil, err
		}
		if sealed {
			return nil, corrupt(name, fmt.Sprintf("names epoch %d, which was never pinned", f.Epoch), nil)
		}
		b = next
	}
}

// noIncrement refuses an epoch whose chain goes on with increment n. A listed seal there ends the
// chain, and so does nothing there: what comes after a gap never follows.
func noIncrement(ctx context.Context, l listing, read smallReader, epoch, n uint64) error {
	if !l.hasIncrement(epoch, n) {
		return nil
	}
	o := l.object(messages.ObjectIncrement, epoch, n)
	data, err := read.read(ctx, o)
	if err != nil {
		return err
	}
	if kind, err := messages.KindOf(data); err == nil && kind == messages.KindSeal {
		return checkSeal(o, data)
	}
	return unsupported(o.Name(), "the epoch goes on with increments")
}
