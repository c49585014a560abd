package machine

import (
	"errors"
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// Phase is what a tenant's actor is doing. The package comment has the table of transitions.
type Phase uint8

// The phases, in the order of a life.
const (
	// Looking reads both stores: is what stopped the last open still in the way?
	Looking Phase = iota
	// Acquiring waits for the answer to an acquire.
	Acquiring
	// AwaitingPredecessor waits out the lease of an ended process with this node's name.
	AwaitingPredecessor
	// Withdrawing waits for the answer to an acquire whose grant is to be handed back.
	Withdrawing
	// Restoring lists, verifies, seals and pins.
	Restoring
	// ReadingRecord asks the lease store again: the durable store contradicts the grant.
	ReadingRecord
	// NotingSaved writes beside the local files what the durable store holds of them.
	NotingSaved
	// MarkingLineage records in the lease store that the tenant has copies.
	MarkingLineage
	// OpeningLedger opens the restored file.
	OpeningLedger
	// StartingOver releases an epoch that an earlier attempt of this process has pinned, to acquire the next one.
	StartingOver
	// Serving takes requests.
	Serving
	// Draining refuses new work and waits for what is in flight.
	Draining
	// Flushing waits until a snapshot that counts holds everything.
	Flushing
	// AwaitingFence is a shutdown's, whose fence has closed by itself: until it opens again, or the last snapshot has landed.
	AwaitingFence
	// Undraining opens the ledger for requests again, after a handoff or a forget that failed.
	Undraining
	// SavingLast has lost its lease, and publishes the last snapshot.
	SavingLast
	// StoppingLedger is a forget past its point of no return.
	StoppingLedger
	// MarkingForgotten sets the floor.
	MarkingForgotten
	// DeletingCopies deletes what the durable store holds up to the floor.
	DeletingCopies
	// DeletingFiles deletes the local files.
	DeletingFiles
	// Releasing waits for the answer to a release. Nothing is served any more.
	Releasing
	// Closed is the end.
	Closed
)

var phaseNames = [...]string{"Looking", "Acquiring", "AwaitingPredecessor", "Withdrawing", "Restoring", "ReadingRecord", "NotingSaved", "MarkingLineage",
	"OpeningLedger", "StartingOver", "Serving", "Draining", "Flushing", "AwaitingFence", "Undraining", "SavingLast", "StoppingLedger", "MarkingForgotten",
	"DeletingCopies", "DeletingFiles", "Releasing", "Closed"}

func (p Phase) String() string { return phaseNames[p] }

// Opening reports whether a caller who waits in this phase may find the tenant serving at its end.
func (p Phase) Opening() bool { return p <= StartingOver && p != Withdrawing }

// Draining reports whether there is a way back to Serving.
func (p Phase) Draining() bool { return p >= Draining && p <= Undraining }

// Forgetting reports whether a forget has passed its point of no return, and is not done.
func (p Phase) Forgetting() bool { return p >= StoppingLedger && p <= DeletingFiles }

// Caller stands for one question or order, and for whoever waits for its answer. 0 is nobody.
type Caller int

// OrderKind is what a tenant is ordered to do.
type OrderKind uint8

// The orders.
const (
	NoOrder OrderKind = iota
	Handoff
	Abandon
	Forget
	Snapshot // is carried out beside the others: it is never State.Order
)

// Order is what the tenant was ordered to do, and is doing.
type Order struct {
	Kind   OrderKind
	Reason Reason
	By     Caller
	Begun  bool // past its point of no return: it is answered with its outcome, or as unknown
	Done   bool // carried out, once the release is answered
}

// Reason is why a tenant is handed off.
type Reason uint8

// The reasons. Shutdown insists: it is answered only when the tenant has ended, and tries again for as long as its caller waits.
// After Idle, Evicted and LostFiles nobody is turned away: whoever asks meanwhile waits, and opens the tenant again.
const (
	Requested Reason = iota
	Moved
	Shutdown
	Idle
	Evicted
	LostFiles
)

// Passing reports whether callers are not told of a handoff for this reason.
func (r Reason) Passing() bool { return r >= Idle }

// Take is the snapshot that is under way.
type Take struct {
	Running bool
	Last    bool // the last snapshot, of a fence that has closed by itself
	Final   bool // what a handoff or forget waits for
	For     Caller
}

// State is all that decides what a tenant does next. It is a value: Step returns a new one, and changes nothing of the old.
type State struct {
	Phase Phase
	Key   messages.Key

	Epoch   uint64 // that was granted; 0: none
	Lineage bool   // the lease record says that there are copies
	Openers []Caller

	Take    Take
	Wanted  []Caller // who each want one that is cut after the one under way
	Saved   uint64   // the ledger's version in the newest snapshot that counts
	Landed  uint64   // the one in the newest that was published, whether it counts or not
	Tries   int      // how often the last snapshot, or the present step of the order, has failed
	Pausing bool     // the next try of the last snapshot comes with a timer

	Order     Order
	Shutdowns []Caller // handoffs of a shutdown that met a tenant which did not serve: answered at the end
	Safe      bool     // a shutdown loses nothing, however this ends

	Why *messages.Error // what the present phase ends with, for those who wait; nil: with success

	Served    bool // this epoch has served
	Abandoned bool // by order: what no snapshot holds is given up
	Forgotten bool // the floor is set
}

// Facts are what holds at the moment of an event. Fenced is looked at before Version is read: what was acknowledged
// under a fence that was found closed is in that version.
type Facts struct {
	Fenced  *messages.Error // why the fence is closed; nil: it is open
	Version uint64          // the ledger's newest commit
	Awaited bool            // somebody still waits for the tenant to open
}

// expiredLocally is the error of a fence that has closed by itself, and that a renewal may open again.
var expiredLocally = &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonExpiredLocally}

func without(list []Caller, c Caller) []Caller {
	return slices.DeleteFunc(slices.Clone(list), func(other Caller) bool { return other == c })
}

// is is errors.Is for a nil *Error too.
func is(err *messages.Error, target error) bool { return err != nil && errors.Is(err, target) }
