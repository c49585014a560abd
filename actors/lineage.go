package actors

import (
	"context"
	"errors"
	"slices"

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
	gen, n, key := t.gen, t.node, t.key
	t.self.Go(func(ctx context.Context) any {
		lease, err := n.record(ctx, key)
		return recordRead{gen, lease, err, contrary}
	})
}

// record reads a lease record; it is the zero Lease where there is none.
func (n *Node) record(ctx context.Context, key messages.Key) (messages.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.StoreTimeout)
	defer cancel()
	lease, _, err := n.leases.Read(ctx, key)
	return lease, err
}

// recordRead decides. An epoch is granted once, and later ones are above it: a record that still names this attempt leaves no
// room for a pin above its epoch, and at its epoch only for one of another attempt of this very process that held it.
func (t *tenant) recordRead(m recordRead) {
	if t.state != StateOpening {
		return
	}
	owner, epoch := t.node.owner, t.granted.Epoch
	switch {
	case m.err != nil:
		t.giveUp(m.err)
	case m.lease.Owner != owner || m.lease.Epoch != epoch:
		t.giveUp(stores.Lost(t.key, m.lease, "the lease went to somebody else during the open"))
	case m.contrary.Code == messages.CodeLineageAhead && m.contrary.Owner == owner && m.contrary.Object == t.key.BaseName(epoch):
		t.fence.Close(messages.ReasonSlotTaken)
		t.release(&release{then: t.startOver})
	default:
		err := *m.contrary
		if err.Code == messages.CodeLineageMissing {
			err.Message += "; see \"The durable store was lost\" in docs/operations.md"
		} else {
			err.Message += leasesLost
		}
		t.node.raise(&err)
		t.giveUp(&err)
	}
}

// lineageMarked goes on with an open when the lease record says that there are copies of the tenant: once in a tenant's life,
// between its first pin and its first answer. From then on a durable store without them is refused.
func (t *tenant) lineageMarked(err error) {
	switch {
	case t.state != StateOpening:
	case err == nil:
		t.openLedger()
	case errors.Is(err, messages.ErrLost):
		t.lost(err)
	case errors.Is(err, messages.ErrUnavailable):
		t.self.After(t.node.cfg.RenewEvery, lineageAgain{t.gen})
	default:
		t.giveUp(err)
	}
}

// contradicts reports whether an open failed because the stores do not belong together.
func contradicts(code messages.Code) bool {
	return code == messages.CodeLineageAhead || code == messages.CodeLineageMissing
}

// lookFirst looks whether what stopped the last open is still there, before this one takes an epoch: tries alone must not carry
// the epoch past what is in the way.
func (t *tenant) lookFirst(before *messages.Error) {
	gen, n, key, cfg := t.gen, t.node, t.key, t.snapshotConfig("", t.gen)
	t.self.Go(func(ctx context.Context) any {
		record, err := n.record(ctx, key)
		if err != nil {
			return looked{gen, messages.AsError(err)}
		}
		names, err := snapshotactor.ListNames(ctx, cfg)
		if err != nil {
			return looked{gen, messages.AsError(err)}
		}
		if !stands(before, record, names) {
			return looked{gen: gen}
		}
		n.raise(before)
		return looked{gen, before}
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

// startOver begins an attempt at a new epoch.
func (t *tenant) startOver() {
	t.lease.Stop()
	t.snaps.Stop()
	t.lease, t.snaps, t.granted = nil, nil, messages.Lease{}
	t.acquire()
}
