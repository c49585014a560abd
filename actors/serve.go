package actors

import (
	"context"
	"errors"

	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/snapshotactor"
)

// fromLease handles a report of the lease child.
func (t *tenant) fromLease(msg any) {
	switch m := msg.(type) {
	case leaseactor.Acquired:
		t.acquired(m.Lease)
	case leaseactor.AcquireFailed:
		t.acquireFailed(m.Err)
	case leaseactor.Renewed:
		t.renewed(m)
	case leaseactor.RenewFailed:
		t.node.metrics.renewFails.Inc()
		// If the outage outlasts the lease, the next owner begins with the newest snapshot: while the
		// fence is open, one more makes what would be lost then smaller.
		t.saveIfDirty("precaution")
	case leaseactor.Lost:
		t.lost(m.Err)
	case leaseactor.Expired:
		t.emit(messages.Lifecycle{Kind: messages.LifecycleFenced, Code: messages.CodeFenced, Reason: messages.ReasonExpiredLocally})
		t.saveLast()
	case leaseactor.Resumed:
		t.last.tries = 0
		t.emit(messages.Lifecycle{Kind: messages.LifecycleResumed})
		t.goOnDraining()
	case leaseactor.Released:
		t.released(m.Err)
	case leaseactor.LineageMarked:
		t.lineageMarked(m.Err)
	case leaseactor.Forgotten:
		t.marked(m.Err)
	}
}

// renewTick sends a renewal, with the newest snapshot that is published by now: when that renewal
// succeeds, no later owner can have listed before it ([S9]).
func (t *tenant) renewTick() {
	if t.state == StateClosing && t.forgetOp == nil {
		return
	}
	t.lease.Send(leaseactor.Renew{Tag: t.published})
	t.self.After(t.node.untilRenewal(), renewTick{t.gen})
	t.closeIfIdle()
}

func (t *tenant) renewed(m leaseactor.Renewed) {
	t.granted = m.Lease
	t.node.metrics.lag.Observe(max(0, t.fence.Deadline().Sub(t.node.cfg.Now())).Seconds())
	t.emit(messages.Lifecycle{Kind: messages.LifecycleRenewed})
	tag := m.Tag
	if t.node.cfg.Planted.Has(planted.RetentionRenewalBefore) {
		tag = t.published
	}
	t.proven = max(t.proven, tag)
	t.retain()
}

// retain deletes old copies if there are any that nobody can need any more.
func (t *tenant) retain() {
	if t.snaps == nil || t.retaining || t.proven <= t.retained || t.state == StateOpening {
		return
	}
	t.retaining, t.retained = true, t.proven
	t.snaps.Send(snapshotactor.RetainFrom{Proven: t.proven})
}

// lost ends the tenant for good: the store has refused it. Its last snapshot may come before the end.
func (t *tenant) lost(err error) {
	if t.state == StateClosing && t.forgetOp == nil {
		return // it is on its way out, and its release was refused
	}
	t.emit(messages.Lifecycle{Kind: messages.LifecycleLost, Code: messages.CodeOf(err), Reason: messages.ReasonLeaseLost})
	t.fence.Close(messages.ReasonLeaseLost)
	if !t.lastBeforeTheEnd(err) {
		t.endLost(err)
	}
}

// fromSnapshots handles a report of the snapshot child.
func (t *tenant) fromSnapshots(msg any) {
	switch m := msg.(type) {
	case snapshotactor.Opened:
		t.act.returnSlot()
		t.restoredOpen(m)
	case snapshotactor.Taken:
		t.taken(m)
	case snapshotactor.Retained:
		t.retaining = false
		if m.Count > 0 {
			t.emit(messages.Lifecycle{Kind: messages.LifecycleRetained, Count: m.Count, Code: messages.CodeOf(m.Err)})
		}
		if m.Err != nil {
			t.retained = 0 // tried again after the next renewal
		} else {
			t.retain()
		}
	case snapshotactor.Swept:
		if m.Count > 0 || m.Err != nil {
			t.emit(messages.Lifecycle{Kind: messages.LifecycleSwept, Count: m.Count, Code: messages.CodeOf(m.Err)})
		}
	case snapshotactor.Forgotten:
		t.copiesGone(m)
	}
}

// fromLedger handles a report of the ledger child.
func (t *tenant) fromLedger(msg any) {
	switch m := msg.(type) {
	case ledgeractor.Opened:
		t.ledgerOpened(m)
	case ledgeractor.Restarted:
		t.emit(messages.Lifecycle{Kind: messages.LifecyclePanic, Code: messages.CodeInternal})
	case ledgeractor.FilesLost:
		t.filesLost(messages.AsError(m.Err))
	case ledgeractor.Corrupt:
		// Nothing more of this file may reach a snapshot. The next open restores the durable copy.
		t.emit(failure(messages.LifecycleCorrupt, m.Err))
		t.node.log(t.key).Error("the local ledger is corrupt: it is abandoned, the durable copy will be restored", "epoch", t.granted.Epoch, "error", m.Err)
		t.giveUp(m.Err)
	}
}

func (t *tenant) snapshotTick() {
	if t.state == StateClosing {
		return
	}
	t.watchUnsaved()
	if t.lostFiles {
		t.leaveLostFiles()
	} else {
		t.saveIfDirty("periodic")
	}
	t.self.After(t.node.cfg.SnapshotEvery, snapshotTick{t.gen})
}

// saveIfDirty takes a snapshot if there are commits that none holds, and none is being taken.
func (t *tenant) saveIfDirty(reason string) {
	if t.state == StateServing && len(t.takes) == 0 && t.handle.Version() != t.saved && t.fence.Check() == nil {
		t.take(reason)
	}
}

func (t *tenant) snapshotNow(m snapshotNow) {
	switch t.state {
	case StateServing:
		if m.order.begin() {
			t.takes = append(t.takes, take{order: m.order, reply: m.reply, begun: t.node.cfg.Now()})
			t.snaps.Send(snapshotactor.Take{Reason: "requested"})
		}
	case StateDraining:
		m.reply <- snapshotDone{err: t.drainingError()}
	default:
		m.reply <- snapshotDone{err: t.act.closed()}
	}
}

// take takes a snapshot of the node's own.
func (t *tenant) take(reason string) {
	t.takes = append(t.takes, take{begun: t.node.cfg.Now()})
	t.snaps.Send(snapshotactor.Take{Reason: reason})
}

// taken handles the answer to a Take, or the late answer for a number that was in doubt.
func (t *tenant) taken(m snapshotactor.Taken) {
	var k take
	if !m.Settled && len(t.takes) > 0 {
		k, t.takes = t.takes[0], t.takes[1:]
	}
	if len(t.takes) == 0 { // else the next one is under way, and has the slot, or will return it itself
		t.act.returnSlot()
	}
	t.published = max(t.published, m.Manifest.Snapshot)
	if m.Manifest.Snapshot > 0 {
		t.last.landed = max(t.last.landed, m.Version)
		t.handle.Saved(m.Version)
		t.watchUnsaved()
		if !k.begun.IsZero() {
			t.last.usual = t.node.cfg.Now().Sub(k.begun)
		}
	}
	if m.Err == nil {
		epoch, image := t.granted.Epoch, m.Manifest.SHA256
		t.self.Go(func(context.Context) any { _ = t.node.noteSaved(t.key, epoch, image); return nil }) // see there
		t.counted, t.saved, t.lastSeq = m.Manifest.Snapshot, m.Version, m.Manifest.LastSeq
		t.emit(messages.Lifecycle{Kind: messages.LifecycleSnapshot, Events: m.Manifest.Events, LastSeq: m.Manifest.LastSeq,
			Position: messages.Position{Epoch: t.granted.Epoch, Snapshot: m.Manifest.Snapshot}})
		t.node.metrics.imageBytes.Observe(float64(m.Manifest.Size))
		if !k.begun.IsZero() {
			t.node.metrics.snapshot.Observe(t.node.cfg.Now().Sub(k.begun).Seconds())
		}
	} else if e := failure(messages.LifecycleSnapFail, m.Err); k.last && m.Manifest.Snapshot > 0 {
		e.Kind, e.Events, e.LastSeq = messages.LifecycleLastSnap, m.Manifest.Events, m.Manifest.LastSeq
		e.Position = messages.Position{Epoch: t.granted.Epoch, Snapshot: m.Manifest.Snapshot}
		t.emit(e)
	} else if !k.last || t.last.tries == 0 { // an outage is one failure, however often the last one is tried
		t.emit(e)
	}
	taken := errors.Is(m.Err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonSlotTaken})
	if taken {
		// Somebody else writes at this epoch ([S4]): it is over, whatever the lease store says.
		t.emit(messages.Lifecycle{Kind: messages.LifecycleFenced, Code: messages.CodeFenced, Reason: messages.ReasonSlotTaken})
		t.giveUp(m.Err)
	}
	if m.Err != nil && !m.Begun {
		k.order.undone()
	}
	if k.reply != nil { // only now: who asks for something else then finds the tenant as it is
		k.reply <- snapshotDone{m.Manifest, m.Err}
	}
	if taken {
		return
	}
	if t.node.cfg.Planted.Has(planted.RetentionNoRenewal) {
		t.proven = t.published
		t.retain()
	}
	if !m.Settled {
		t.flushed(m.Err)
	}
	t.afterTake(k, m)
}
