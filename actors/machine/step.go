package machine

import (
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// Step returns what becomes of a tenant by an event, and what is to be done.
func Step(s State, f Facts, e Event) (State, []Effect) {
	m := &step{State: s, facts: f}
	m.on(e)
	return m.State, m.effects
}

// step is one call of Step.
type step struct {
	State
	facts   Facts
	effects []Effect
}

func (m *step) do(e Effect) { m.effects = append(m.effects, e) }

func (m *step) on(e Event) {
	if m.Phase == Closed {
		m.refuse(e)
		return
	}
	switch e := e.(type) {
	case Await:
		m.await(e.By)
	case Give:
		m.give(e)
	case Revoke:
		m.revoke(e.By, e.Err)
	case SnapshotDue:
		m.snapshotDue(e.Reason)
	case Abort:
		m.do(CloseFence{messages.ReasonReleased})
		m.close(e.Err)
	case Started:
		m.started(e.Before)
	case Acquired:
		m.acquired(e.Lease)
	case AcquireFailed:
		m.acquireFailed(e)
	case Expired:
		m.do(Tell{messages.LifecycleFenced, expiredLocally})
		m.saveLast()
	case Resumed:
		if !m.Phase.Forgetting() {
			m.Tries = 0
		}
		m.do(Tell{Kind: messages.LifecycleResumed})
		if m.Phase == AwaitingFence {
			m.flush()
		}
	case Lost:
		m.lost(e.Err)
	case LineageMarked:
		m.lineageMarked(e.Err)
	case FloorSet:
		m.floorSet(e.Err)
	case Released:
		m.released()
	case Looked:
		m.looked(e.Err)
	case Restored:
		m.restored(e.Err)
	case RecordRead:
		m.recordRead(e)
	case SavedNoted:
		m.savedNoted(e.Err)
	case LedgerOpened:
		m.ledgerOpened(e.Err)
	case Drained:
		m.drained(e.Err)
	case Undrained:
		m.undrained(e.Err)
	case Corrupt:
		m.giveUp(e.Err)
	case Taken:
		m.taken(e)
	case CopiesDeleted:
		m.copiesDeleted(e.Err)
	case FilesDeleted:
		m.filesDeleted(e.Err)
	case SuccessorSought:
		m.successorSought(e.Found)
	case Gone:
		m.gone(e.Child)
	case Elapsed:
		m.elapsed(e.Timer)
	}
}

func (m *step) elapsed(t Timer) {
	switch t {
	case OpenTimeout:
		m.tooLate()
	case AcquireAgain:
		m.acquireAgain()
	case MarkAgain:
		switch m.Phase {
		case MarkingLineage:
			m.do(MarkLineage{})
		case MarkingForgotten:
			m.do(MarkForgotten{})
		}
	case FlushAgain:
		if m.Phase == Flushing {
			m.flush()
		}
	case LastAgain:
		m.Pausing = false
		m.saveLast()
	case LastHurry:
		if m.Phase == SavingLast {
			m.do(Hurry{})
			m.do(After{Timer: LastHurry})
		}
	case SeekAgain:
		if m.Phase == SavingLast {
			m.do(SeekSuccessor{})
		}
	}
}

// await answers a caller who wants to find the tenant serving.
func (m *step) await(by Caller) {
	switch {
	case m.Phase == Serving:
		m.answer(by, nil)
	case m.Phase.Opening():
		m.Openers = append(slices.Clip(m.Openers), by)
	case m.Phase.Draining() && m.Order.Reason.Passing():
		m.do(Answer{To: by, Wait: UntilDrained})
	case m.Phase.Draining():
		m.answer(by, m.busy())
	default:
		m.do(Answer{To: by, Wait: UntilGone})
	}
}

// refuse answers what comes too late.
func (m *step) refuse(e Event) {
	switch e := e.(type) {
	case Await:
		m.do(Answer{To: e.By, Wait: UntilGone})
	case Give:
		m.answer(e.By, m.closed())
	}
}

func (m *step) answer(c Caller, err *messages.Error) {
	if c != 0 {
		m.do(Answer{To: c, Err: err})
	}
}

func (m *step) answerAll(list []Caller, err *messages.Error) {
	for _, c := range list {
		m.answer(c, err)
	}
}

// answerOrder answers whoever gave the order that is being carried out, and ends it.
func (m *step) answerOrder(err *messages.Error) {
	if err != nil && m.Order.Begun {
		err = m.unknown(err)
	}
	m.answer(m.Order.By, err)
	m.Order = Order{}
}

// unknown is the answer to what was begun, and has no outcome that is known (contract Q1).
func (m *step) unknown(why *messages.Error) *messages.Error {
	e := messages.Unknown(m.Key, m.Epoch, why)
	e.Message = "the order was begun and interrupted: it may or may not have been carried out, or still be"
	return e
}

func (m *step) errorOf(code messages.Code, message string) *messages.Error {
	return &messages.Error{Code: code, Key: m.Key.String(), Epoch: m.Epoch, Message: message}
}

// busy is the refusal of a tenant that is on its way from one phase to another.
func (m *step) busy() *messages.Error {
	message := "the tenant is being handed off"
	if m.Phase.Opening() {
		message = "the tenant is being opened"
	}
	e := m.errorOf(messages.CodeDraining, message)
	e.RetryAfter = retryAfter
	return e
}

func (m *step) closed() *messages.Error {
	return m.errorOf(messages.CodeClosed, "the tenant is closed")
}

// revoke tells a caller who does not wait any longer whether anything was done of his order, and ends it if nothing was.
func (m *step) revoke(by Caller, err *messages.Error) {
	switch {
	case slices.Contains(m.Wanted, by):
		m.Wanted = without(m.Wanted, by)
		m.answer(by, err)
	case by == m.Take.For:
		m.Take.For = 0
		m.answer(by, m.unknown(err))
	case slices.Contains(m.Shutdowns, by):
		m.Shutdowns = without(m.Shutdowns, by)
		m.answer(by, err)
	case by == m.Order.By && m.Order.Begun:
		m.answer(by, m.unknown(err))
		m.Order.By = 0
	case by == m.Order.By:
		m.answer(by, err)
		m.Order.By = 0
		if m.Phase >= Draining && m.Phase < Undraining {
			m.undrain(err)
		}
	}
}

// giveUp ends what cannot go on: the lease is handed back without a flush. Whoever waits is answered after the release, so that
// nobody who tries elsewhere meets a lease that is about to be handed back.
func (m *step) giveUp(err *messages.Error) {
	if m.Phase.Opening() {
		m.do(OpenFailed{err})
	}
	switch m.Phase {
	case Looking, AwaitingPredecessor: // nothing is under way
		m.close(err)
	case Acquiring: // whose grant must be handed back
		m.Phase, m.Why = Withdrawing, err
		m.do(CloseFence{messages.ReasonReleased})
		m.answerAll(m.Openers, err)
		m.Openers = nil
	case StartingOver:
		m.Phase, m.Why = Releasing, err
	case SavingLast:
		m.endLost(m.Why)
	case Withdrawing, StoppingLedger, MarkingForgotten, DeletingCopies, DeletingFiles, Releasing, Closed: // it is ending
	default:
		m.Why = err
		m.release(false)
	}
}

// release gives the lease back; the tenant ends with the answer.
func (m *step) release(byOrder bool) {
	if m.Take.Last {
		m.do(StopSnapshots{})
	}
	m.Phase = Releasing
	if m.Order.Kind == Handoff {
		m.Order.Begun = true // in the middle of it, whatever the reason: nobody may be told that nothing was done
	}
	saved := m.Saved
	if m.Order.Kind == Handoff { // of a shutdown, which the last snapshot is enough for
		saved = max(saved, m.Landed)
	}
	m.do(Release{ByOrder: byOrder, Saved: saved})
}

// released ends the tenant when the lease store has answered. If it did not, the next owner waits the lease out (contract D8).
func (m *step) released() {
	switch m.Phase {
	case StartingOver:
		m.Epoch, m.Lineage = 0, false
		m.do(Attempt{})
		m.acquire()
	case Releasing:
		if m.Order.Done {
			m.answerOrder(nil)
		}
		m.close(m.Why)
	}
}

// close ends the actor. The lease must have been dealt with. A nil err is that of an end which was asked for: whoever asked for
// something else is turned away.
func (m *step) close(err *messages.Error) {
	others := err
	if others == nil {
		others = m.busy()
	}
	m.Phase = Closed
	m.answerAll(m.Openers, others)
	m.answerAll(m.Wanted, others)
	m.answer(m.Take.For, m.unknown(others))
	m.answerOrder(others)
	if m.Safe {
		err = nil
	}
	m.answerAll(m.Shutdowns, err)
	m.Openers, m.Wanted, m.Take, m.Shutdowns = nil, nil, Take{}, nil
	m.do(Stop{})
}

// gone handles the end of a child. But for a ledger that was stopped, it is that of a panic in our own code.
func (m *step) gone(c Child) {
	failed := m.errorOf(messages.CodeInternal, "an actor of the tenant failed")
	switch {
	case c == LedgerChild && m.Phase == StoppingLedger:
		m.Phase = MarkingForgotten
		m.do(MarkForgotten{})
	case c == LeaseChild && m.Phase == SavingLast: // nothing is asked of it any more
	case c == LeaseChild:
		m.do(Tell{messages.LifecyclePanic, failed})
		m.loseLease(failed)
	case m.Phase == SavingLast:
		m.endLost(m.Why)
	case c == SnapshotChild && m.Phase.Forgetting():
		m.do(Tell{messages.LifecyclePanic, failed})
		m.forgetFailed(failed)
	case m.Phase == Serving || m.Phase.Opening() || m.Phase.Draining():
		m.do(Tell{messages.LifecyclePanic, failed})
		m.giveUp(failed)
	}
}
