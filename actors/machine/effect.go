package machine

import "github.com/leasehold/leasehold/messages"

// Effect is what the actor is to do: one of the types below, in the order in which Step returned them. What has an answer is answered by the event
// that its comment names, once, unless the child that does it ends first.
type Effect interface{ effect() }

type (
	// Attempt begins an attempt to open: a lease child of its own, with a fence of its own.
	Attempt struct{}
	// Look: Looked.
	Look struct{}
	// Acquire: Acquired or AcquireFailed.
	Acquire struct{}
	// Restore begins the renewals, and restores the granted epoch: Restored.
	Restore struct{}
	// ReadRecord: RecordRead.
	ReadRecord struct{ Contrary *messages.Error }
	// NoteSaved: SavedNoted.
	NoteSaved struct{}
	// MarkLineage: LineageMarked.
	MarkLineage struct{}
	// OpenLedger: LedgerOpened.
	OpenLedger struct{}
	// OpenFailed notes what an open failed with, so that the next one backs off.
	OpenFailed struct{ Err *messages.Error }
	// Raise raises an alarm for an operator.
	Raise struct{ Err *messages.Error }
	// Drain: Drained.
	Drain struct{}
	// Undrain ends a Drain that is under way: Undrained.
	Undrain struct{}
	// TakeSnapshot: Taken. Last: with everything up to Version, cut behind the closed fence.
	TakeSnapshot struct {
		Reason  string
		Last    bool
		Version uint64
	}
	// CancelCut ends a snapshot that is still to be cut: the fence has closed. It is answered all the same.
	CancelCut struct{}
	// Hurry ends the running try of a snapshot. It is answered all the same.
	Hurry struct{}
	// StopSnapshots stops the snapshot child, so that a last snapshot does not outlive the lease.
	StopSnapshots struct{}
	// AwaitLast raises the alarm of a lost lease whose last snapshot cannot be published; LastOver ends it.
	AwaitLast struct{ Err *messages.Error }
	// LastOver ends what AwaitLast began.
	LastOver struct{}
	// SeekSuccessor: SuccessorSought.
	SeekSuccessor struct{}
	// CloseFence closes the fence for good.
	CloseFence struct{ Reason string }
	// StopLedger: Gone.
	StopLedger struct{}
	// MarkForgotten: FloorSet.
	MarkForgotten struct{}
	// DeleteCopies: CopiesDeleted.
	DeleteCopies struct{}
	// DeleteFiles: FilesDeleted.
	DeleteFiles struct{}
	// Release closes the fence for good, and gives the lease back: Released. Of an order it is said whether everything was
	// saved: the ledger's version, read when the fence is closed, is Saved or all of it is forgotten.
	Release struct {
		ByOrder bool
		Saved   uint64
	}
	// After: Elapsed, after a pause that grows with Tries. Err is what is waited out.
	After struct {
		Timer Timer
		Tries int
		Err   *messages.Error
	}
	// Tell publishes a lifecycle event.
	Tell struct {
		Kind messages.LifecycleKind
		Err  *messages.Error
	}
	// Answer answers a caller, once. Wait: there is nothing to say yet, the caller asks again.
	Answer struct {
		To   Caller
		Err  *messages.Error
		Wait Wait
	}
	// Stop ends the actor and its children.
	Stop struct{}
)

// Wait is what a caller waits for before it asks again.
type Wait uint8

// What there is to wait for.
const (
	NoWait       Wait = iota
	UntilDrained      // the end of the drain under way, in whichever way
	UntilGone         // the end of the actor
)

func (Attempt) effect()       {}
func (Look) effect()          {}
func (Acquire) effect()       {}
func (Restore) effect()       {}
func (ReadRecord) effect()    {}
func (NoteSaved) effect()     {}
func (MarkLineage) effect()   {}
func (OpenLedger) effect()    {}
func (OpenFailed) effect()    {}
func (Raise) effect()         {}
func (Drain) effect()         {}
func (Undrain) effect()       {}
func (TakeSnapshot) effect()  {}
func (CancelCut) effect()     {}
func (Hurry) effect()         {}
func (StopSnapshots) effect() {}
func (AwaitLast) effect()     {}
func (LastOver) effect()      {}
func (SeekSuccessor) effect() {}
func (CloseFence) effect()    {}
func (StopLedger) effect()    {}
func (MarkForgotten) effect() {}
func (DeleteCopies) effect()  {}
func (DeleteFiles) effect()   {}
func (Release) effect()       {}
func (After) effect()         {}
func (Tell) effect()          {}
func (Answer) effect()        {}
func (Stop) effect()          {}
