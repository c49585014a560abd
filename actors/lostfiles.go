package actors

import "github.com/leasehold/leasehold/messages"

// The files of an open ledger can be deleted, moved or replaced by somebody. The ledger notices, and takes no more writes; what it
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
	if t.state == StateServing && t.fence.Check() == nil {
		t.leave(reasonLostFiles)
	}
}
