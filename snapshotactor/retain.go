package snapshotactor

import (
	"context"
	"errors"
	"slices"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// Retain deletes old copies on behalf of the holder of epoch, and returns how many objects are gone
// (S9). proven is the holder's own snapshot N of which it knows that a renewal SENT after N was
// published has succeeded: any later owner is granted after that, lists after that, and sees N. The
// caller answers for that; once true it stays true, so that Retain is safe at any later time.
//
// What may go: everything of earlier epochs, and the epoch's own snapshots below N. What stays: the
// epoch's own base, every seal, N and what is newer, whatever does not belong to this lineage's names,
// and the snapshots of the lineage that policy keeps (with the pins that connect them). Uploads of
// fenced holders that never became part of the lineage are not kept by any policy.
//
// Objects are deleted one by one, oldest epoch first and a manifest before its image, so that no
// manifest ever promises an image that Retain took. It goes on after a failed deletion, and reports
// the failures joined; three failures in a row end it. Calling it again finishes the rest.
func Retain(ctx context.Context, cfg Config, epoch, proven uint64, policy Retention) (deleted int, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return 0, err
	}
	if epoch == 0 || proven == 0 {
		return 0, invalid(cfg.Key, "retention needs an epoch, and a snapshot of it that is proven")
	}
	r := retaining{caller: caller{cfg}, epoch: epoch, proven: proven}
	names, err := r.list(ctx)
	if err != nil {
		return 0, err
	}
	r.listing = readListing(cfg.Key, names)
	if !r.listing.hasManifest(epoch, proven) {
		return 0, invalid(cfg.Key, "the proven snapshot is not in the store: nothing is deleted")
	}
	keep, err := r.kept(ctx, policy)
	if err != nil {
		return 0, err
	}
	for _, e := range r.listing.ascending() {
		if e > epoch {
			break
		}
		r.epochRest(ctx, e, keep)
	}
	return r.deleted, errors.Join(r.failed...)
}

// snapshotID names a snapshot of the tenant.
type snapshotID struct{ epoch, number uint64 }

type retaining struct {
	caller
	epoch, proven uint64
	listing       listing
	deleted       int
	failed        []error
	inARow        int // failures since the last answer
}

// tooManyInARow is how many failures in a row end a deletion early: the store is away, and trying
// every object would only take long.
const tooManyInARow = 3

// kept returns the snapshots older than the proven one that the policy keeps.
func (r *retaining) kept(ctx context.Context, policy Retention) (map[snapshotID]bool, error) {
	keep := map[snapshotID]bool{}
	if policy.Keep <= 0 && policy.MinAge <= 0 {
		return keep, nil
	}
	links, err := chain(ctx, r.listing, r.small, r.epoch, 0)
	if err != nil {
		return nil, err
	}
	now, left := r.Now(), policy.Keep
	for _, link := range links {
		for _, n := range slices.Backward(r.listing.at(link.epoch).manifests) {
			if n > link.upTo || link.epoch == r.epoch && n >= r.proven {
				continue
			}
			// One that is gone, or damaged, is none that a restore could use.
			m, sealed, err := smallReader(r.small).manifest(ctx, r.listing, link.epoch, n)
			if errors.Is(err, messages.ErrUnavailable) {
				return nil, err
			}
			if err != nil || sealed {
				continue
			}
			young := policy.MinAge > 0 && now.Sub(m.Time) < policy.MinAge
			if left > 0 || young {
				keep[snapshotID{link.epoch, n}] = true
				left--
			}
		}
	}
	return keep, nil
}

// epochRest deletes what may go of one epoch.
func (r *retaining) epochRest(ctx context.Context, e uint64, keep map[snapshotID]bool) {
	objects := r.listing.at(e)
	own := e == r.epoch
	goes := func(n uint64) bool { return !keep[snapshotID{e, n}] && (!own || n < r.proven) }
	kept := 0
	for _, n := range objects.manifests {
		if !goes(n) {
			kept++
			continue
		}
		r.remove(ctx, r.listing.object(messages.ObjectManifest, e, n))
	}
	for _, n := range objects.images {
		if goes(n) && !r.stillPromised(ctx, e, n) {
			r.remove(ctx, r.listing.object(messages.ObjectImage, e, n))
		}
	}
	if own {
		// Its increments: this version writes none, and none is covered by an image.
		if r.Planted.Has(planted.RetentionOwnBase) && objects.base {
			r.remove(ctx, r.listing.object(messages.ObjectBase, e, 0))
		}
		return
	}
	for _, n := range objects.increments {
		r.remove(ctx, r.listing.object(messages.ObjectIncrement, e, n))
	}
	// The pin last, and not while it connects a snapshot that is kept.
	if objects.base && kept == 0 {
		r.remove(ctx, r.listing.object(messages.ObjectBase, e, 0))
	}
}

// stillPromised reports whether the manifest of an image could not be deleted just now.
func (r *retaining) stillPromised(ctx context.Context, e, n uint64) bool {
	if len(r.failed) == 0 || !r.listing.hasManifest(e, n) {
		return false
	}
	o := r.listing.object(messages.ObjectManifest, e, n)
	data, ok, err := r.small(ctx, o.Name())
	return err != nil || ok && !isSeal(o, data)
}

// remove deletes one object, unless it is a seal. Only the slots that can hold a seal are read.
func (r *retaining) remove(ctx context.Context, o messages.Object) {
	name := o.Name()
	if r.inARow >= tooManyInARow {
		return
	}
	if o.Kind != messages.ObjectImage && !r.Planted.Has(planted.RetentionSweepsSeals) {
		data, ok, err := r.small(ctx, name)
		switch {
		case errors.Is(err, messages.ErrTooLarge): // that is no seal
		case err != nil:
			r.fail(err)
			return
		case !ok || isSeal(o, data):
			return
		}
	}
	err := r.retry(ctx, name, func(ctx context.Context) error {
		gone, err := r.Store.Delete(ctx, name)
		if gone {
			r.deleted++
		}
		return err
	})
	if err != nil {
		r.fail(err)
		return
	}
	r.inARow = 0
}

func (r *retaining) fail(err error) {
	r.failed = append(r.failed, err)
	r.inARow++
}
