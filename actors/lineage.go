package actors

import (
	"context"
	"slices"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
	"github.com/leasehold/leasehold/stores"
)

// What an open does when the durable store contradicts the lease that it was granted. Mostly this node was paused, and somebody
// else has the tenant by now. If not, the two stores do not belong together: the lease store has lost records, or the
// durable store has lost objects. Nothing is stepped over then, and nothing is made anew: an operator has to look (docs/protocol.md,
// "Open").

// leasesLost ends the message of a refusal as CodeLineageAhead.
const leasesLost = "; the lease store has lost records: stop all nodes and run lease reseed, see \"The lease store was lost\" in docs/operations.md"

// Absent says why a tenant cannot be read whose record, as it was just read, does not exist (messages.Lease.Exists); nil: it does by
// now. CodeUnknownTenant: there is no such tenant, or it was forgotten. CodeLineageAhead, with an alarm: there is no record, and the durable
// store has copies that were not forgotten, so the lease store has lost it. Only where there is no record the durable store is looked at, a
// few looks at a time on a node. The other errors are those of the stores, and of ctx.
func (n *Node) Absent(ctx context.Context, key messages.Key, record messages.Lease) error {
	if record.Epoch > 0 {
		return messages.UnknownTenant(key)
	}
	select {
	case n.looking <- struct{}{}:
		defer func() { <-n.looking }()
	case <-ctx.Done():
		return messages.AsError(ctx.Err())
	}
	names, err := snapshotactor.ListNames(ctx, snapshotactor.Config{
		Store: n.cfg.Durable, Key: key, Now: n.cfg.Now, CallTimeout: n.cfg.DurableTimeout, Attempts: 1, Log: n.cfg.Log,
	})
	if err != nil {
		return err
	}
	seeds := stores.Seeds(names)
	if len(seeds) == 0 || seeds[0].Epoch == seeds[0].Floor {
		return messages.UnknownTenant(key)
	}
	// The record comes before the first object: a tenant that is created meanwhile has one by now.
	record, err = n.record(ctx, key)
	switch {
	case err != nil || record.Exists():
		return err
	case record.Epoch > 0:
		return messages.UnknownTenant(key)
	}
	ahead := &messages.Error{Code: messages.CodeLineageAhead, Key: key.String(), Epoch: seeds[0].Epoch,
		Message: "the durable store holds objects of the tenant, and there is no lease record" + leasesLost}
	n.raise(ahead)
	return ahead
}

// readRecordAgain asks the lease store whether this attempt still has its epoch.
func (t *tenant) readRecordAgain(contrary *messages.Error) {
	n, key, epoch := t.node, t.key, t.granted.Epoch
	t.inAttempt(func(ctx context.Context) machine.Event {
		lease, err := n.record(ctx, key)
		switch {
		case err != nil:
			return machine.RecordRead{Err: messages.AsError(err)}
		case lease.Owner != n.owner || lease.Epoch != epoch:
			return machine.RecordRead{Err: messages.AsError(stores.Lost(key, lease, "the lease went to somebody else during the open"))}
		}
		told := *contrary
		if told.Code == messages.CodeLineageMissing {
			told.Message += "; see \"The durable store was lost\" in docs/operations.md"
		} else {
			told.Message += leasesLost
		}
		own := contrary.Code == messages.CodeLineageAhead && contrary.Owner == n.owner && contrary.Object == key.BaseName(epoch)
		return machine.RecordRead{Own: own, Contrary: &told}
	})
}

// record reads a lease record; it is the zero Lease where there is none.
func (n *Node) record(ctx context.Context, key messages.Key) (messages.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.StoreTimeout)
	defer cancel()
	lease, _, err := n.leases.Read(ctx, key)
	return lease, err
}

// contradicts reports whether an open failed because the stores do not belong together.
func contradicts(code messages.Code) bool {
	return code == messages.CodeLineageAhead || code == messages.CodeLineageMissing
}

// look looks whether what stopped the last open is still there.
func (t *tenant) look(before *messages.Error) {
	n, key, cfg := t.node, t.key, t.snapshotConfig("")
	t.inAttempt(func(ctx context.Context) machine.Event {
		record, err := n.record(ctx, key)
		if err != nil {
			return machine.Looked{Err: messages.AsError(err)}
		}
		names, err := snapshotactor.ListNames(ctx, cfg)
		switch {
		case err != nil:
			return machine.Looked{Err: messages.AsError(err)}
		case !stands(before, record, names):
			return machine.Looked{}
		}
		n.raise(before)
		return machine.Looked{Err: before}
	})
}

// stands reports whether a record and the names of a tenant's objects contradict each other as they did before.
func stands(before *messages.Error, record messages.Lease, names []string) bool {
	if before.Code == messages.CodeLineageMissing {
		return record.HasLineage() && !slices.ContainsFunc(names, func(name string) bool {
			o, err := messages.ParseObject(name)
			return err == nil && o.Kind == messages.ObjectBase && o.Epoch > record.Floor
		})
	}
	o, err := messages.ParseObject(before.Object)
	switch {
	case err != nil || !slices.Contains(names, before.Object):
		return false
	case o.Kind == messages.ObjectBase:
		return record.Epoch <= o.Epoch && record.Floor < o.Epoch
	case o.Kind == messages.ObjectFloor:
		return record.Floor < o.Epoch
	}
	return !record.HasLineage() && record.Floor < o.Epoch
}
