package stores

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// ReseedOwner is the owner in a record that was reseeded. No node has this name: an owner id names an incarnation.
const ReseedOwner = "lease-reseed"

// ReseedTTL is the ttl of such a record. Its lease is over.
const ReseedTTL = messages.MinTTL

// Seed is what the copies of a tenant say about its lease record.
type Seed struct {
	Key messages.Key
	// Epoch is the highest epoch that the durable store knows, floors included.
	Epoch uint64
	// Floor is the highest forgotten epoch, Lineage an epoch above it that left copies; 0: none.
	Floor, Lineage uint64
}

// Reseeder is what a LeaseStore may implement for a lease store that has lost records. It is for tools, while no node runs.
type Reseeder interface {
	// Reseed raises a record so that no epoch that is in its seed is granted again: see Seed.Raise. It returns the record, which
	// is the old one if nothing was missing. CodeHeld: the lease has not ended. With live that is no reason to refuse; its
	// holder has lost it then, and may serve until the end of its window.
	Reseed(ctx context.Context, seed Seed, live bool) (messages.Lease, error)
}

// Validate returns an error with CodeInvalidID or CodeOutOfRange unless the seed can be applied.
func (s Seed) Validate() error {
	if err := s.Key.Validate(); err != nil {
		return err
	}
	if s.Floor > s.Epoch || s.Lineage > s.Epoch || s.Epoch >= 1<<62 {
		return &messages.Error{Code: messages.CodeOutOfRange, Key: s.Key.String(), Message: "a floor or lineage above its epoch, or an epoch that is none"}
	}
	return nil
}

// Raise returns the record (the zero Lease: there is none) after a reseed at an instant of the store, and whether it differs: it
// does if its epoch is not above the seed's, its floor is below, or it does not know of a lineage. Then it gets
// a new epoch, above all that were used, and a lease that is over. Where nothing is left above the floor, the floor rises with it.
func (s Seed) Raise(old messages.Lease, now time.Time) (messages.Lease, bool) {
	floor, lineage := max(old.Floor, s.Floor), old.Lineage
	if lineage <= floor && s.Lineage > floor {
		lineage = s.Lineage
	}
	if s.Epoch == 0 || old.Epoch > s.Epoch && floor == old.Floor && lineage == old.Lineage {
		return old, false
	}
	epoch := max(old.Epoch, s.Epoch) + 1
	if s.Floor == s.Epoch && lineage <= floor {
		floor = epoch // nothing is left of the tenant: it stays forgotten
	}
	return messages.Lease{Key: s.Key, Owner: ReseedOwner, Epoch: epoch, TTL: ReseedTTL, End: now, Floor: floor, Lineage: lineage}, true
}

// Seeds returns what the names of all objects of a durable store say about the lease records, in the order of their keys. Names
// that are no objects of a tenant are left out.
func Seeds(names []string) []Seed {
	byKey := map[messages.Key]Seed{}
	for _, floors := range []bool{true, false} { // what is at or below a floor is no lineage
		for _, name := range names {
			o, err := messages.ParseObject(name)
			if err != nil || (o.Kind == messages.ObjectFloor) != floors {
				continue
			}
			s := byKey[o.Key]
			s.Key, s.Epoch = o.Key, max(s.Epoch, o.Epoch)
			// Snapshots are of an epoch that was served. A base may be a seal, or of one that never was.
			image := o.Kind == messages.ObjectImage
			switch {
			case floors:
				s.Floor = max(s.Floor, o.Epoch)
			case image && o.Epoch > s.Floor && (s.Lineage == 0 || o.Epoch < s.Lineage):
				s.Lineage = o.Epoch
			}
			byKey[o.Key] = s
		}
	}
	return sorted(byKey)
}

const reseedPage = 500

// ReseedOptions is what Reseed may go by, besides the copies.
type ReseedOptions struct {
	// From is the lease store whose place the other one takes, where it is still there: a move to another engine. What only its records
	// say goes along: epochs that left no copy, forgets that were cut off, and which tenants have copies. nil: it is lost.
	From LeaseStore
	// Live says that leases which are live belong to nodes that are gone. Without it they are a reason to refuse.
	Live bool
}

// Reseed makes a lease store that of the durable store, in place of one that was lost, or is left for another: it raises every record
// above the highest epoch that the durable store, or the former lease store, knows, floors included, and binds the two stores (Rebind). It
// returns the records that it raised. No node may run. While a lease is live, in either lease store, nothing is done (CodeHeld). It
// can be repeated: what lacks nothing is left as it is, except that a record at exactly the highest epoch is raised once.
//
// CodeDeploymentMismatch: the lease store is that of other copies, or the former one is not that of these. CodeInvalidArgument: a store
// is no Reseeder, or the former one no LeaseLister. CodeHeld at the end of a move: a node took a lease in the former store meanwhile.
func Reseed(ctx context.Context, leases LeaseStore, durable DurableStore, o ReseedOptions) ([]messages.Lease, error) {
	store, ok := leases.(Reseeder)
	if !ok {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "this lease store cannot be reseeded"}
	}
	if err := reseedable(ctx, leases, durable, o.From); err != nil {
		return nil, err
	}
	names, err := durable.List(ctx, "")
	if err != nil {
		return nil, err
	}
	seeds := Seeds(names)
	if o.From != nil {
		former, err := recordsOf(ctx, o.From, o.Live)
		if err != nil {
			return nil, err
		}
		seeds = withRecords(seeds, former)
	}
	if !o.Live {
		if err := noneLive(ctx, leases, store, seeds); err != nil {
			return nil, err
		}
	}
	var raised []messages.Lease
	for _, seed := range seeds {
		before, _, err := leases.Read(ctx, seed.Key)
		if err != nil {
			return raised, err
		}
		after, err := store.Reseed(ctx, seed, o.Live)
		if err != nil {
			return raised, err
		}
		if after.Epoch != before.Epoch {
			raised = append(raised, after)
		}
	}
	if _, ok := leases.(DeploymentKeeper); ok {
		if _, err := Rebind(ctx, leases, durable); err != nil {
			return raised, err
		}
	}
	if o.From != nil { // from now on no node starts on the former store; one that was there all the while has shown itself, or finds out
		_, err = recordsOf(ctx, o.From, o.Live)
	}
	return raised, err
}

// reseedable refuses lease stores that are not what the caller takes them for: a wrong URL must not make one deployment of two.
func reseedable(ctx context.Context, leases LeaseStore, durable DurableStore, from LeaseStore) error {
	keeper, ok := leases.(DeploymentKeeper)
	if !ok {
		return nil
	}
	d := deployment{leases: leases, keeper: keeper, durable: durable}
	ofDurable, ofLeases, err := d.read(ctx)
	switch {
	case err != nil:
		return err
	case ofDurable != "" && ofLeases != "" && ofDurable != ofLeases:
		return d.mismatch(ofDurable, ofLeases, "take a lease store that is new")
	}
	former, ok := from.(DeploymentKeeper)
	if !ok {
		return nil
	}
	ofFormer, err := former.Deployment(ctx)
	switch {
	case err != nil:
		return err
	case ofFormer != "" && ofFormer == ofLeases:
		return &messages.Error{Code: messages.CodeInvalidArgument, Message: "the former lease store and the new one are the same"}
	case ofDurable != "" && ofFormer != ofDurable && ofLeases != ofDurable: // the last: this is repeated
		return deployment{leases: from, keeper: former, durable: durable}.mismatch(ofDurable, ofFormer, "")
	}
	return nil
}

// noneLive refuses, as CodeHeld, while a lease in a store is live: one that has no copies included.
func noneLive(ctx context.Context, leases LeaseStore, store Reseeder, seeds []Seed) error {
	for _, seed := range seeds {
		if _, err := store.Reseed(ctx, Seed{Key: seed.Key}, false); err != nil {
			return err
		}
	}
	return eachRecord(ctx, leases, func(lease messages.Lease) error {
		_, err := store.Reseed(ctx, Seed{Key: lease.Key}, false)
		return err
	})
}

// recordsOf returns every record of a lease store of which, unless live is true, no lease is live: else it is CodeHeld. It changes nothing.
func recordsOf(ctx context.Context, leases LeaseStore, live bool) (out []messages.Lease, err error) {
	store, ok := leases.(Reseeder)
	_, lists := leases.(LeaseLister)
	if !ok || !lists {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "the former lease store cannot be read as a whole"}
	}
	err = eachRecord(ctx, leases, func(lease messages.Lease) error {
		out = append(out, lease)
		if live {
			return nil
		}
		_, err := store.Reseed(ctx, Seed{Key: lease.Key}, false)
		return err
	})
	return out, err
}

// withRecords adds to seeds what the records of the former lease store say.
func withRecords(seeds []Seed, records []messages.Lease) []Seed {
	byKey := make(map[messages.Key]Seed, len(seeds))
	for _, s := range seeds {
		byKey[s.Key] = s
	}
	for _, lease := range records {
		s := byKey[lease.Key]
		s.Key, s.Epoch, s.Floor = lease.Key, max(s.Epoch, lease.Epoch), max(s.Floor, lease.Floor)
		if lease.HasLineage() {
			s.Lineage = lease.Lineage
		}
		byKey[lease.Key] = s
	}
	return sorted(byKey)
}

func sorted(byKey map[messages.Key]Seed) []Seed {
	return slices.SortedFunc(maps.Values(byKey), func(a, b Seed) int { return strings.Compare(a.Key.String(), b.Key.String()) })
}

// eachRecord calls f with every record, where the store can list them.
func eachRecord(ctx context.Context, leases LeaseStore, f func(messages.Lease) error) error {
	lister, ok := leases.(LeaseLister)
	if !ok {
		return nil
	}
	for after := ""; ; {
		page, err := lister.Leases(ctx, after, reseedPage)
		if err != nil {
			return err
		}
		for _, lease := range page {
			if err := f(lease); err != nil {
				return err
			}
			after = lease.Key.String()
		}
		if len(page) < reseedPage {
			return nil
		}
	}
}
