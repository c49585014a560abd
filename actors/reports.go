package actors

import (
	"errors"
	"time"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
	"github.com/leasehold/leasehold/snapshotactor"
)

// report turns what a child reports into an event of the machine.
func (t *tenant) report(msg any) {
	switch m := msg.(type) {
	case leaseactor.Acquired:
		t.acquired(m.Lease)
	case leaseactor.AcquireFailed:
		e := messages.AsError(m.Err)
		t.step(machine.AcquireFailed{Err: e, Predecessor: t.ofPredecessor(e)})
	case leaseactor.Renewed:
		t.renewed(m)
	case leaseactor.RenewFailed:
		t.renewFailed()
	case leaseactor.Lost:
		t.step(machine.Lost{Err: messages.AsError(m.Err)})
	case leaseactor.Expired:
		t.step(machine.Expired{})
	case leaseactor.Resumed:
		t.step(machine.Resumed{})
	case leaseactor.Released:
		t.released(m.Err)
	case leaseactor.LineageMarked:
		t.step(machine.LineageMarked{Err: messages.AsError(m.Err)})
	case leaseactor.Forgotten:
		if m.Err == nil {
			t.granted.Floor = t.granted.Epoch
		}
		t.step(machine.FloorSet{Err: messages.AsError(m.Err)})
	case snapshotactor.Opened:
		t.act.returnSlot()
		t.restoredOpen(m)
	case snapshotactor.Taken:
		t.taken(m)
	case snapshotactor.Retained:
		t.retained(m)
	case snapshotactor.Swept:
		if m.Count > 0 || m.Err != nil {
			t.emit(messages.Lifecycle{Kind: messages.LifecycleSwept, Count: m.Count, Code: messages.CodeOf(m.Err)})
		}
	case snapshotactor.Forgotten:
		t.forgotten += m.Count
		t.step(machine.CopiesDeleted{Err: messages.AsError(m.Err)})
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
		t.step(machine.Corrupt{Err: messages.AsError(m.Err)})
	}
}

// ofPredecessor reports whether an acquire was refused because of a lease under this node's name. That is this process's own, given
// up and not confirmed yet, or that of a predecessor, which is dead because the state root is locked: it is waited out
// instead of being reported. Unless it moves: then it is that of a living node with the same name.
func (t *tenant) ofPredecessor(held *messages.Error) bool {
	if held.Code != messages.CodeHeld || messages.OwnerNode(held.Owner) != t.node.cfg.NodeName {
		return false
	}
	if held.Lease == nil || held.Owner == t.node.owner {
		return true
	}
	before := t.awaited
	t.awaited = *held.Lease
	return before.Epoch == 0 || before.Epoch == t.awaited.Epoch && !t.awaited.End.After(before.End)
}

// released is told that the lease store has answered a release, or has not.
func (t *tenant) released(err error) {
	if t.granted.Epoch > 0 && t.state.Phase != machine.Closed {
		t.emit(messages.Lifecycle{Kind: messages.LifecycleReleased, Flushed: t.flushed, Code: messages.CodeOf(err)})
	}
	if o := t.state.Order; o.Kind == machine.Handoff && o.Done {
		t.node.metrics.handoff.Observe(t.node.cfg.Now().Sub(t.drain.begun).Seconds())
	}
	t.step(machine.Released{Err: messages.AsError(err)})
}

// taken is told of a snapshot that was answered, or of a late answer for a number that was in doubt.
func (t *tenant) taken(m snapshotactor.Taken) {
	last := t.state.Take.Last && !m.Settled
	if !m.Settled || !t.state.Take.Running { // else the one under way has the slot
		t.act.returnSlot()
	}
	took := time.Duration(0)
	if !m.Settled {
		took = t.node.cfg.Now().Sub(t.takeBegun)
	}
	published := m.Manifest.Snapshot > 0
	if published {
		t.retention.published = max(t.retention.published, m.Manifest.Snapshot)
		t.handle.Saved(m.Version)
		t.watchUnsaved()
		if took > 0 {
			t.usual = took
		}
	}
	switch position := (messages.Position{Epoch: t.granted.Epoch, Snapshot: m.Manifest.Snapshot}); {
	case m.Err == nil:
		t.noteSaved(m.Manifest.SHA256)
		t.manifest, t.counted, t.lastSeq = m.Manifest, m.Manifest.Snapshot, m.Manifest.LastSeq
		t.emit(messages.Lifecycle{Kind: messages.LifecycleSnapshot, Events: m.Manifest.Events, LastSeq: m.Manifest.LastSeq, Position: position})
		t.node.metrics.imageBytes.Observe(float64(m.Manifest.Size))
		if !m.Settled {
			t.node.metrics.snapshot.Observe(took.Seconds())
		}
	case last && published:
		e := failure(messages.LifecycleLastSnap, m.Err)
		e.Events, e.LastSeq, e.Position = m.Manifest.Events, m.Manifest.LastSeq, position
		t.emit(e)
	case !last || t.state.Tries == 0: // an outage is one failure, however often the last one is tried
		t.emit(failure(messages.LifecycleSnapFail, m.Err))
	}
	t.step(machine.Taken{Err: messages.AsError(m.Err), Published: published, Version: m.Version, Begun: m.Begun, Settled: m.Settled})
	t.retainUnproven()
}

// childGone is told of the end of a child, of this attempt or of an earlier one.
func (t *tenant) childGone(ref *mailbox.Ref) {
	switch ref {
	case t.lease:
		t.step(machine.Gone{Child: machine.LeaseChild})
	case t.snaps:
		t.step(machine.Gone{Child: machine.SnapshotChild})
	case t.ledger:
		t.step(machine.Gone{Child: machine.LedgerChild})
	}
}

// errNotThere says that SQLite has made an empty file where there was none.
var errNotThere = errors.New("the restored ledger is not at its place")

func (t *tenant) ledgerOpened(m ledgeractor.Opened) {
	if m.Err == nil && (m.Events < t.restored.Events || m.LastSeq < t.restored.LastSeq) {
		m.Err = storageError(t.key, errNotThere)
	}
	if m.Err == nil && t.state.Phase == machine.OpeningLedger {
		t.serves(m)
	}
	t.step(machine.LedgerOpened{Err: messages.AsError(m.Err)})
}

// serves does what comes before the first answer.
func (t *tenant) serves(m ledgeractor.Opened) {
	t.lastSeq = m.LastSeq
	t.act.needs.Store(int64(m.Needs))
	began := t.restored.Began
	t.act.began.Store(&began)
	t.act.opened.Store(true)
	t.node.clearAlarm(messages.CodeLineageAhead, t.key.String())
	t.node.clearAlarm(messages.CodeLineageMissing, t.key.String())
	t.emit(messages.Lifecycle{Kind: messages.LifecycleServing, Events: m.Events, LastSeq: m.LastSeq})
	t.node.metrics.openTime.Observe(t.node.cfg.Now().Sub(t.begun).Seconds())
	t.self.After(t.node.cfg.SnapshotEvery, snapshotTick{t.attempt})
	if t.asides.Load() {
		t.examineAside()
	}
}
