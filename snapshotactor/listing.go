package snapshotactor

import (
	"context"
	"maps"
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// listing is what one List of a tenant's prefix showed, by epoch and number.
type listing struct {
	key    messages.Key
	epochs map[uint64]*epochListing
	floors []uint64 // that the durable store keeps, ascending
	// strays are names below the tenant's prefix that are no objects of a lineage.
	strays []string
}

// epochListing holds the objects of one epoch; numbers are ascending, as numbers.
type epochListing struct {
	base       bool
	images     []uint64
	manifests  []uint64
	increments []uint64
}

// readListing sorts names. Names of other tenants do not count, not even as strays.
func readListing(key messages.Key, names []string) listing {
	l := listing{key: key, epochs: map[uint64]*epochListing{}}
	prefix := key.Prefix()
	for _, name := range names {
		if len(name) < len(prefix) || name[:len(prefix)] != prefix {
			continue
		}
		o, err := messages.ParseObject(name)
		if err != nil {
			l.strays = append(l.strays, name)
			continue
		}
		if o.Kind == messages.ObjectFloor {
			l.floors = append(l.floors, o.Epoch)
			continue
		}
		e := l.epochs[o.Epoch]
		if e == nil {
			e = &epochListing{}
			l.epochs[o.Epoch] = e
		}
		switch o.Kind {
		case messages.ObjectBase:
			e.base = true
		case messages.ObjectImage:
			e.images = append(e.images, o.Number)
		case messages.ObjectManifest:
			e.manifests = append(e.manifests, o.Number)
		case messages.ObjectIncrement:
			e.increments = append(e.increments, o.Number)
		}
	}
	slices.Sort(l.floors)
	for _, e := range l.epochs {
		for _, numbers := range []*[]uint64{&e.images, &e.manifests, &e.increments} {
			slices.Sort(*numbers)
			*numbers = slices.Compact(*numbers)
		}
	}
	return l
}

// floor returns the highest floor that the durable store keeps; 0: none.
func (l listing) floor() uint64 {
	if len(l.floors) == 0 {
		return 0
	}
	return l.floors[len(l.floors)-1]
}

// ascending returns the epochs that have objects.
func (l listing) ascending() []uint64 { return slices.Sorted(maps.Keys(l.epochs)) }

// at returns the objects of an epoch; it may have none.
func (l listing) at(epoch uint64) *epochListing {
	if e := l.epochs[epoch]; e != nil {
		return e
	}
	return &epochListing{}
}

func (l listing) hasBase(epoch uint64) bool { return l.at(epoch).base }

// highestBase returns the highest epoch with something in its base slot; 0: none.
func (l listing) highestBase() uint64 {
	for _, e := range slices.Backward(l.ascending()) {
		if l.hasBase(e) {
			return e
		}
	}
	return 0
}

func (l listing) hasManifest(epoch, n uint64) bool {
	_, ok := slices.BinarySearch(l.at(epoch).manifests, n)
	return ok
}

func (l listing) hasIncrement(epoch, n uint64) bool {
	_, ok := slices.BinarySearch(l.at(epoch).increments, n)
	return ok
}

// smallReader returns the bytes of a listed small object; ok is false if it is gone.
type smallReader func(ctx context.Context, name string) (data []byte, ok bool, err error)

func (l listing) object(kind messages.ObjectKind, epoch, n uint64) messages.Object {
	return messages.Object{Key: l.key, Epoch: epoch, Kind: kind, Number: n}
}

// read returns the bytes of an object that the lineage needs.
func (r smallReader) read(ctx context.Context, o messages.Object) ([]byte, error) {
	data, ok, err := r(ctx, o.Name())
	if err == nil && !ok {
		err = corrupt(o.Name(), "the lineage needs it, and it is gone", nil)
	}
	return data, err
}

// base reads the base slot of an epoch in which the listing showed something.
func (r smallReader) base(ctx context.Context, l listing, epoch uint64) (messages.Base, bool, error) {
	o := l.object(messages.ObjectBase, epoch, 0)
	data, err := r.read(ctx, o)
	if err != nil {
		return messages.Base{}, false, err
	}
	return decodeBase(o, data)
}

// manifest reads a manifest slot in which the listing showed something.
func (r smallReader) manifest(ctx context.Context, l listing, epoch, n uint64) (messages.Manifest, bool, error) {
	o := l.object(messages.ObjectManifest, epoch, n)
	data, err := r.read(ctx, o)
	if err != nil {
		return messages.Manifest{}, false, err
	}
	return decodeManifest(o, data)
}
