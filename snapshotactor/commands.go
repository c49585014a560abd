package snapshotactor

import "github.com/leasehold/leasehold/messages"

// The commands of an Actor, sent to its mailbox.Ref. Each is answered by exactly one report (Taken
// may come once more for a number that was in doubt, marked Settled).
type (
	// OpenTenant restores the tenant for a granted epoch; see Open. Answer: Opened. After a failure
	// it may be asked for again, with a new grant; snapshots of an earlier grant end with it.
	OpenTenant struct{ Grant Grant }
	// Take asks for a snapshot that is cut after this command was received. Answer: Taken. Takes run
	// one after the other, in the order of their arrival (L6).
	Take struct {
		Reason string
		// Last asks for the last snapshot of a holder whose fence has closed by itself: it is cut by
		// Config.CutLast, and like every snapshot it counts only if the fence is open after its manifest.
		// A number that was in doubt, and whose image is of Version or later, is settled and is the answer:
		// no second image is cut of the same state.
		Last    bool
		Version uint64
	}
	// Hurry ends the running attempt of a Take, which is answered with an error, and leaves its number in
	// doubt: the next Take reads it back and sends the same bytes again. It is for a supervisor who has
	// learned that the store is back while a call waits for an answer that was lost. No answer.
	Hurry struct{}
	// RetainFrom deletes old copies; see Retain. Answer: Retained.
	RetainFrom struct{ Proven uint64 }
	// ForgetUpTo deletes every copy of the epochs up to a floor that the lease store has already
	// recorded; see DeleteForgotten. It ends the taking of snapshots: a running Take is cancelled,
	// and later ones are refused with CodeClosed. Answer: Forgotten.
	ForgetUpTo struct{ Floor uint64 }
	// SweepUpTo deletes leftovers at or below the floor; see Sweep. Answer: Swept.
	SweepUpTo struct{ Floor uint64 }
)

// The reports of an Actor, handed to the function given to New.
type (
	// Opened answers OpenTenant. Err is CodeLineageAhead if the lineage has a base at or above the epoch, CodeCorrupt if a
	// verification failed (Object names what), CodeUnavailable if the store did not answer.
	Opened struct {
		Restored Restored
		Err      error
	}
	// Taken answers Take. With a nil Err the snapshot is published and counts. If Err is set and
	// Manifest.Snapshot is not 0, the snapshot is published but does not count, because the fence was
	// closed after its manifest. An error with CodeFenced and ReasonSlotTaken is final.
	Taken struct {
		Manifest messages.Manifest
		// Version is Image.Version of what was published.
		Version uint64
		Err     error
		Reason  string // that of the Take
		// Begun says that something of the Take was sent to the store: with an Err, it may still be published.
		Begun bool
		// Settled marks the late answer for a number whose own Take was answered with an error. It
		// answers no Take.
		Settled bool
	}
	// Retained answers RetainFrom. Count objects are gone, also when Err is set.
	Retained struct {
		Count int
		Err   error
	}
	// Forgotten answers ForgetUpTo. Count objects are gone, also when Err is set.
	Forgotten struct {
		Count int
		Err   error
	}
	// Swept answers SweepUpTo. Count objects are gone, also when Err is set.
	Swept struct {
		Count int
		Err   error
	}
)
