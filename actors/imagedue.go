package actors

import (
	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/messages"
)

// When an image of the ledger is due that nobody has asked for: every SnapshotEvery; when a renewal was not answered; and when the
// ledger's files are gone, at the end of a handoff. The machine asks for the others: before a release, and behind a closed fence.

func (t *tenant) snapshotTick() {
	if t.public() == StateClosing {
		return
	}
	t.watchUnsaved()
	if t.lostFiles {
		t.leaveLostFiles()
	} else {
		t.step(machine.SnapshotDue{Reason: "periodic"})
	}
	t.self.After(t.node.cfg.SnapshotEvery, snapshotTick{t.attempt})
}

// renewFailed is told of a renewal without an answer. If the outage outlasts the lease, the next owner begins with the newest
// snapshot: while the fence is open, one more makes what would be lost then smaller.
func (t *tenant) renewFailed() {
	t.node.metrics.renewFails.Inc()
	t.step(machine.SnapshotDue{Reason: "precaution"})
}

// filesLost is told that somebody has deleted, moved or replaced the files of the open ledger. It takes no more writes; what it
// holds is still there for its open connection. So the tenant is handed off: its final snapshot is made from that, and
// the next open restores it at the next epoch. As long as the snapshot cannot be published that is tried again, at the pace of
// periodic snapshots.
func (t *tenant) filesLost(why *messages.Error) {
	t.lostFiles = true
	t.emit(failure(messages.LifecycleFilesLost, why))
	t.node.raise(why)
	t.leaveLostFiles()
}

func (t *tenant) leaveLostFiles() {
	if t.state.Phase == machine.Serving && t.fence.Check() == nil {
		t.order(machine.LostFiles)
	}
}
