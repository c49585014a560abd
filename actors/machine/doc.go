// Package machine decides what the actor of a tenant does next: one pure function, [Step], from a [State], the [Facts] of the moment
// and an [Event] to the next State and a list of [Effect]. It reads no clock, starts nothing and waits for nothing. The actor
// (package actors) turns what it hears into events, and does the effects in their order.
//
// # Phases
//
// A tenant is in one [Phase]. An open that goes well:
//
//	Acquiring → Restoring → NotingSaved → MarkingLineage (once in a tenant's life) → OpeningLedger → Serving
//
// a handoff, and a forget:
//
//	Serving → Draining → Flushing → Releasing → Closed
//	Serving → Draining → Flushing → StoppingLedger → MarkingForgotten → DeletingCopies → DeletingFiles → Releasing → Closed
//
// All ways from phase to phase, and what takes them. Beside these, every phase goes to Closed when the lease is lost (unless
// SavingLast comes first) or the node is aborted.
//
//	Looking              Acquiring            what stopped the last open is not there any more
//	Acquiring            Restoring            granted
//	Acquiring            AwaitingPredecessor  held by an ended process of this node
//	Acquiring            Withdrawing          given up: a timeout, a shutdown
//	AwaitingPredecessor  Acquiring            a pause
//	Withdrawing          Releasing            the acquire was answered
//	Restoring            NotingSaved          restored, sealed and pinned
//	Restoring            ReadingRecord        the durable store contradicts the grant
//	Restoring            Releasing            failed, or given up; so from every phase until Serving
//	ReadingRecord        StartingOver         the base is this process's own
//	ReadingRecord        Releasing            the stores do not belong together
//	StartingOver         Acquiring            released: the next epoch
//	StartingOver         Releasing            given up meanwhile
//	NotingSaved          MarkingLineage       the record does not say yet that there are copies
//	NotingSaved          OpeningLedger        it does
//	NotingSaved          Releasing            failed
//	MarkingLineage       OpeningLedger        marked
//	MarkingLineage       Releasing            failed
//	OpeningLedger        Serving              opened
//	OpeningLedger        Releasing            failed
//	Serving              Draining             a handoff or a forget
//	Serving              Releasing            an abandon; corrupt; a slot taken by others; a bug
//	Serving              SavingLast           the lease is lost, and something is unsaved; so from every drain
//	Draining             Flushing             nothing is in flight any more, and something is unsaved
//	Draining             AwaitingFence        the same, in a shutdown, behind a fence that has closed by itself
//	Draining             Releasing            the same, and everything is saved
//	Draining             StoppingLedger       the same, in a forget
//	Draining             Undraining           the caller gives up, or the ledger does not drain
//	Draining             SavingLast           lost
//	Flushing             Releasing            a snapshot that counts holds everything
//	Flushing             StoppingLedger       the same, in a forget
//	Flushing             AwaitingFence        in a shutdown, the fence has closed by itself
//	Flushing             Undraining           the snapshot failed, or the caller gives up
//	Flushing             SavingLast           lost
//	AwaitingFence        Flushing             the fence is open again
//	AwaitingFence        Releasing            the last snapshot has landed
//	AwaitingFence        Undraining           the caller gives up, or it is hopeless
//	AwaitingFence        SavingLast           lost
//	Undraining           Serving              the ledger takes work again
//	Undraining           Draining             the same, and a shutdown has waited for it
//	Undraining           Releasing            it does not: a bug
//	Undraining           SavingLast           lost
//	StoppingLedger       MarkingForgotten     stopped
//	StoppingLedger       Releasing            a bug; so from every phase of a forget
//	MarkingForgotten     DeletingCopies       the floor is set
//	MarkingForgotten     Releasing            refused, or unanswered for too long
//	DeletingCopies       DeletingFiles        deleted
//	DeletingCopies       Releasing            not deleted for too long: the sweep goes on with it
//	DeletingFiles        Releasing            deleted, or not
//
// TestMachine explores every state that can be reached in a model of the surroundings, fails where a rule is broken, and checks
// that this table is what it found. docs/testing.md says how to go on when it fails.
//
// # Answers
//
// Every [Caller] gets one [Answer]. An order (handoff, abandon, forget, snapshot) has a point of no return ([Order].Begun); from there on
// its caller is told the outcome, or unknown_outcome; before it, an error means that nothing was done (contract Q1).
package machine
