package machine

import "github.com/leasehold/leasehold/messages"

// Event is what happens to a tenant: one of the types below. What comes of an earlier attempt to open, or of an earlier drain, is
// kept from Step by its caller.
type Event interface{ event() }

// From callers.
type (
	// Started is the first event. Before is what stopped the last open, if that must be looked for first.
	Started struct{ Before *messages.Error }
	// Await asks for a tenant that serves.
	Await struct{ By Caller }
	// Give is an order.
	Give struct {
		By     Caller
		Kind   OrderKind
		Reason Reason
	}
	// Revoke says that a caller does not wait any longer, and why.
	Revoke struct {
		By  Caller
		Err *messages.Error
	}
	// SnapshotDue asks for a snapshot if there is something to save.
	SnapshotDue struct{ Reason string }
	// Abort ends the actor as a kill of the process would.
	Abort struct{ Err *messages.Error }
)

// From the lease child: see leaseactor.
type (
	// Acquired is a grant.
	Acquired struct{ Lease messages.Lease }
	// AcquireFailed is a refusal. Predecessor: the lease is that of an ended process of this node.
	AcquireFailed struct {
		Err         *messages.Error
		Predecessor bool
	}
	// Expired says that the fence has closed by itself, Resumed that it is open again.
	Expired struct{}
	// Resumed follows Expired.
	Resumed struct{}
	// Lost says that the lease is lost for good.
	Lost struct{ Err *messages.Error }
	// LineageMarked answers MarkLineage.
	LineageMarked struct{ Err *messages.Error }
	// FloorSet answers MarkForgotten.
	FloorSet struct{ Err *messages.Error }
	// Released answers Release.
	Released struct{ Err *messages.Error }
)

// From the snapshot child, the ledger child, and work of the tenant's own.
type (
	// Looked answers Look: what is still in the way.
	Looked struct{ Err *messages.Error }
	// Restored answers Restore.
	Restored struct{ Err *messages.Error }
	// RecordRead answers ReadRecord. Err: the lease is lost, or the store does not answer. Own: the contradiction is a base that an
	// earlier attempt of this very process has pinned at this epoch. Else Contrary tells the operator.
	RecordRead struct {
		Err      *messages.Error
		Own      bool
		Contrary *messages.Error
	}
	// SavedNoted answers NoteSaved.
	SavedNoted struct{ Err *messages.Error }
	// LedgerOpened answers OpenLedger.
	LedgerOpened struct{ Err *messages.Error }
	// Drained answers Drain, Undrained answers Undrain.
	Drained struct{ Err *messages.Error }
	// Undrained answers Undrain.
	Undrained struct{ Err *messages.Error }
	// Corrupt says that nothing more of the ledger's file may reach a snapshot.
	Corrupt struct{ Err *messages.Error }
	// Taken answers TakeSnapshot, or settles an earlier one.
	Taken struct {
		Err       *messages.Error
		Published bool   // it is in the store, whether it counts or not
		Version   uint64 // of what was published
		Begun     bool   // with an Err: it may still be published
		Settled   bool   // it answers nobody
	}
	// CopiesDeleted answers DeleteCopies.
	CopiesDeleted struct{ Err *messages.Error }
	// FilesDeleted answers DeleteFiles.
	FilesDeleted struct{ Err *messages.Error }
	// SuccessorSought answers SeekSuccessor.
	SuccessorSought struct{ Found bool }
	// Gone says that a child has ended.
	Gone struct{ Child Child }
	// Elapsed is the end of an After.
	Elapsed struct{ Timer Timer }
)

// Child is one of the three actors that work for a tenant.
type Child uint8

// The children.
const (
	LeaseChild Child = iota
	SnapshotChild
	LedgerChild
)

// Timer names what After waits for.
type Timer uint8

// The timers. One that nobody waits for any more does nothing.
const (
	OpenTimeout  Timer = iota // runs from the start of the actor; nobody asks for it
	AcquireAgain              // after a predecessor's lease
	MarkAgain                 // an unanswered MarkLineage or MarkForgotten
	FlushAgain                // a final snapshot of a shutdown that failed
	LastAgain                 // a last snapshot that failed
	LastHurry                 // a last snapshot that takes long
	SeekAgain                 // whether there is a successor
)

func (Started) event()         {}
func (Await) event()           {}
func (Give) event()            {}
func (Revoke) event()          {}
func (SnapshotDue) event()     {}
func (Abort) event()           {}
func (Acquired) event()        {}
func (AcquireFailed) event()   {}
func (Expired) event()         {}
func (Resumed) event()         {}
func (Lost) event()            {}
func (LineageMarked) event()   {}
func (FloorSet) event()        {}
func (Released) event()        {}
func (Looked) event()          {}
func (Restored) event()        {}
func (RecordRead) event()      {}
func (SavedNoted) event()      {}
func (LedgerOpened) event()    {}
func (Drained) event()         {}
func (Undrained) event()       {}
func (Corrupt) event()         {}
func (Taken) event()           {}
func (CopiesDeleted) event()   {}
func (FilesDeleted) event()    {}
func (SuccessorSought) event() {}
func (Gone) event()            {}
func (Elapsed) event()         {}
