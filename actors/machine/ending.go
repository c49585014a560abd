package machine

import (
	"github.com/leasehold/leasehold/messages"
)

// unsaved reports whether the ledger holds commits that are in no snapshot, whether that counts or not: what has landed
// in a slot is in every later state.
func (m *step) unsaved() bool { return m.Served && m.facts.Version > max(m.Saved, m.Landed) }

// saveLast asks for the last snapshot if the fence has closed by itself, the store does not hold everything yet, and no
// snapshot is under way (docs/protocol.md, "The last snapshot").
func (m *step) saveLast() {
	due := m.Phase == SavingLast || is(m.facts.Fenced, expiredLocally) &&
		(m.Phase == Serving || m.Phase.Draining() && m.Order.Kind != Forget) // a forget that has got this far may still go on
	switch {
	case !due || m.Pausing || !m.unsaved():
	case m.Take.Running:
		// What is being uploaded is waited for. What was not cut by now cannot be, but may wait behind a transaction until it
		// learns that.
		m.do(CancelCut{})
	default:
		m.take(Take{Last: true}, TakeSnapshot{Reason: "last", Last: true, Version: m.facts.Version})
	}
}

// lastFailed tries again, if that can help.
func (m *step) lastFailed(err *messages.Error) {
	switch {
	case !hopeless(err):
		m.Tries++
		m.Pausing = true
		if m.Phase == SavingLast {
			m.do(AwaitLast{err})
		}
		m.do(After{Timer: LastAgain, Tries: m.Tries})
	case m.Phase == AwaitingFence:
		m.undrain(err)
	case m.Phase == SavingLast:
		m.endLost(m.Why)
	}
	m.snapshot()
}

// lost handles the refusal of the lease store.
func (m *step) lost(err *messages.Error) {
	switch m.Phase {
	case SavingLast, Releasing, StartingOver, Closed: // it is on its way out, and its release was refused
		return
	}
	m.do(Tell{messages.LifecycleLost, err})
	m.loseLease(err)
}

// loseLease ends the tenant for good, when its last snapshot has landed. A refused renewal means that the lease has run out; if it names
// a later epoch, a successor was faster, and the snapshot would meet its seal.
func (m *step) loseLease(err *messages.Error) {
	m.do(CloseFence{messages.ReasonLeaseLost})
	if m.Phase != Serving && !m.Phase.Draining() || err.Epoch > m.Epoch || !m.unsaved() {
		m.endLost(err)
		return
	}
	m.Phase, m.Why, m.Pausing = SavingLast, err, false
	m.refuseWanted(err)
	if m.Tries > 0 {
		// The durable store was away too. What is under way may wait for an answer that was lost with it.
		m.do(Hurry{})
	}
	m.do(After{Timer: LastHurry})
	m.do(After{Timer: SeekAgain})
	m.saveLast()
}

// successorSought ends the wait for a last snapshot when somebody else has been granted the lease: whatever is published from then on
// is not restored, and callers must be told who serves.
func (m *step) successorSought(found bool) {
	switch {
	case m.Phase != SavingLast:
	case found:
		m.endLost(m.Why)
	default:
		m.do(After{Timer: SeekAgain})
	}
}

// endLost ends a tenant that has lost its lease. To a shutdown that is as good as a handoff, if nothing is unsaved.
func (m *step) endLost(why *messages.Error) {
	if m.Phase == SavingLast {
		m.do(LastOver{})
	}
	if m.Served && !m.unsaved() {
		m.Safe = true
		if m.Order.Reason == Shutdown {
			m.answer(m.Order.By, nil)
			m.Order = Order{}
		}
	}
	m.close(why)
}

// forgetTries bounds how often an unanswered step of a forget is tried before the caller is told. The floor protects the
// rest: the sweep finishes what was begun.
const forgetTries = 5

// pointOfNoReturn begins the part of a forget that has no way back. The fence was open a moment ago (contract D11); the lease
// child looks again.
func (m *step) pointOfNoReturn() {
	m.Order.Begun = true
	m.Phase, m.Tries = StoppingLedger, 0
	m.do(StopLedger{})
}

// floorSet handles the answer to MarkForgotten. Without one the lease child has read the floor back in vain, or could not read it;
// asking again is safe as long as the lease lives.
func (m *step) floorSet(err *messages.Error) {
	switch {
	case m.Phase != MarkingForgotten:
	case err == nil:
		m.Forgotten, m.Tries = true, 0
		m.Phase = DeletingCopies
		m.do(DeleteCopies{})
	case is(err, messages.ErrUnavailable) && m.Tries < forgetTries:
		m.Tries++
		m.do(After{Timer: MarkAgain, Tries: m.Tries})
	default:
		if nothingMarked(err, m.Tries) {
			m.Order.Begun = false
		}
		m.forgetFailed(err)
	}
}

// nothingMarked reports whether the floor was not set, and never will be by this forget. CodeLost says so in any case, the
// others only if no request was sent before that one.
func nothingMarked(err *messages.Error, tries int) bool {
	switch err.Code {
	case messages.CodeLost:
		return true
	case messages.CodeFenced, messages.CodeHeld, messages.CodeOutOfRange, messages.CodeInvalidID, messages.CodeInvalidArgument:
		return tries == 0
	}
	return false
}

func (m *step) copiesDeleted(err *messages.Error) {
	switch {
	case m.Phase != DeletingCopies:
	case err == nil:
		m.Phase = DeletingFiles
		m.do(DeleteFiles{})
	case m.Tries < forgetTries:
		m.Tries++
		m.do(DeleteCopies{})
	default:
		m.do(Tell{messages.LifecycleForgotten, err})
		m.forgetFailed(err)
	}
}

func (m *step) filesDeleted(err *messages.Error) {
	if m.Phase != DeletingFiles {
		return
	}
	m.do(Tell{messages.LifecycleForgotten, err})
	if err != nil {
		m.forgetFailed(err)
		return
	}
	m.Order.Done = true
	m.release(true)
}

// forgetFailed hands the lease back; the tenant does not serve again.
func (m *step) forgetFailed(err *messages.Error) {
	m.Why, m.Safe = err, m.Forgotten || !m.unsaved()
	m.release(false)
}
