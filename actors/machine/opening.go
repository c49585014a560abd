package machine

import (
	"time"

	"github.com/leasehold/leasehold/messages"
)

const retryAfter = 100 * time.Millisecond

// NodeDown is the refusal of a node that stops.
func NodeDown() *messages.Error {
	return &messages.Error{Code: messages.CodeDraining, Message: "the node is shutting down"}
}

func (m *step) started(before *messages.Error) {
	m.do(Attempt{})
	if before == nil {
		m.acquire()
		return
	}
	m.Phase = Looking
	m.do(Look{})
}

// looked goes on if what stopped the last open is not in the way any more. Tries alone must not carry the epoch past it.
func (m *step) looked(err *messages.Error) {
	switch {
	case m.Phase != Looking:
	case err != nil:
		m.giveUp(err)
	default:
		m.acquire()
	}
}

func (m *step) acquire() {
	m.Phase = Acquiring
	m.do(Acquire{})
}

func (m *step) acquireAgain() {
	switch {
	case m.Phase != AwaitingPredecessor:
	case m.facts.Awaited:
		m.acquire()
	default:
		m.close(m.closed())
	}
}

func (m *step) acquireFailed(e AcquireFailed) {
	switch {
	case m.Phase == Withdrawing:
		// The fence was closed meanwhile, and so a grant too is reported as a failure.
		m.release(false)
	case m.Phase != Acquiring:
	case e.Predecessor:
		m.Phase = AwaitingPredecessor
		m.do(After{Timer: AcquireAgain, Err: e.Err})
	default:
		m.close(e.Err)
	}
}

// acquired goes on to restore. Renewals run from here on: a restore may take longer than the lease.
func (m *step) acquired(lease messages.Lease) {
	m.Epoch, m.Lineage = lease.Epoch, lease.HasLineage()
	switch m.Phase {
	case Withdrawing:
		m.release(false)
	case Acquiring:
		m.Phase = Restoring
		m.do(Restore{})
	}
}

// tooLate gives up an open that has used up its time.
func (m *step) tooLate() {
	if m.Phase.Opening() {
		m.giveUp(&messages.Error{Code: messages.CodeUnavailable, Key: m.Key.String(), Message: "the open took too long"})
	}
}

func (m *step) restored(err *messages.Error) {
	switch {
	case m.Phase != Restoring:
	case err == nil:
		m.Phase = NotingSaved
		m.do(NoteSaved{})
	default:
		if is(err, messages.ErrCorrupt) && m.facts.Fenced != nil {
			// A successor may own the lineage by now, and its retention may have taken what this open listed: that is no
			// damage, and must not be reported as such.
			err = m.facts.Fenced
		}
		m.do(Tell{messages.LifecycleFailed, err})
		if is(err, messages.ErrLineageAhead) || is(err, messages.ErrLineageMissing) {
			m.Phase = ReadingRecord
			m.do(ReadRecord{err})
			return
		}
		m.giveUp(err)
	}
}

// recordRead decides about a durable store that contradicts the grant. An epoch is granted once, and later ones are above it: a
// record that still names this attempt leaves no room for a pin above its epoch, and at its epoch only for one of another
// attempt of this very process that held it. Else the stores do not belong together (contract K3).
func (m *step) recordRead(e RecordRead) {
	switch {
	case m.Phase != ReadingRecord:
	case e.Err != nil:
		m.giveUp(e.Err)
	case e.Own:
		m.Phase = StartingOver
		m.do(Release{})
	default:
		m.do(Raise{e.Contrary})
		m.giveUp(e.Contrary)
	}
}

// savedNoted opens the ledger, whose file may hold more than what was restored from here on. Before that the record learns, once
// in a tenant's life, that there are copies: from then on a durable store without them is refused.
func (m *step) savedNoted(err *messages.Error) {
	switch {
	case m.Phase != NotingSaved:
	case err != nil:
		m.giveUp(err)
	case m.Lineage:
		m.openLedger()
	default:
		m.Phase = MarkingLineage
		m.do(MarkLineage{})
	}
}

func (m *step) lineageMarked(err *messages.Error) {
	switch {
	case m.Phase != MarkingLineage:
	case err == nil:
		m.openLedger()
	case is(err, messages.ErrLost):
		m.lost(err)
	case is(err, messages.ErrUnavailable):
		m.do(After{Timer: MarkAgain})
	default:
		m.giveUp(err)
	}
}

func (m *step) openLedger() {
	m.Phase = OpeningLedger
	m.do(OpenLedger{})
}

func (m *step) ledgerOpened(err *messages.Error) {
	switch {
	case m.Phase != OpeningLedger:
	case err != nil:
		m.do(Tell{messages.LifecycleFailed, err})
		m.giveUp(err)
	default:
		m.Phase, m.Served = Serving, true
		m.answerAll(m.Openers, nil)
		m.Openers = nil
	}
}
