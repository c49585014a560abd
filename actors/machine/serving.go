package machine

import (
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// give takes an order, or refuses it.
func (m *step) give(g Give) {
	switch {
	case m.Phase != Serving && g.Kind == Handoff && g.Reason == Shutdown:
		// Answered only when the lease was handed back: what is stopped before that lets it run out.
		m.Shutdowns = append(slices.Clip(m.Shutdowns), g.By)
		if m.Phase.Opening() || m.Phase == Withdrawing {
			m.Safe = true // nothing was served
			m.giveUp(NodeDown())
		}
	case m.Phase.Opening() || m.Phase.Draining():
		m.answer(g.By, m.busy())
	case m.Phase != Serving:
		m.answer(g.By, m.closed())
	case g.Kind == Snapshot:
		m.Wanted = append(slices.Clip(m.Wanted), g.By)
		m.snapshot()
	case g.Kind == Abandon:
		m.Order = Order{Kind: Abandon, By: g.By, Begun: true, Done: true}
		m.Abandoned, m.Why = true, m.closed()
		m.release(true)
	default:
		m.Order = Order{Kind: g.Kind, Reason: g.Reason, By: g.By}
		m.Phase = Draining
		m.refuseWanted(m.busy())
		m.do(Tell{Kind: messages.LifecycleDraining})
		m.do(Drain{})
	}
}

// snapshotDue takes a snapshot if there are commits that none holds, and none is being taken.
func (m *step) snapshotDue(reason string) {
	if m.Phase == Serving && !m.Take.Running && m.facts.Version != m.Saved && m.facts.Fenced == nil {
		m.take(Take{}, TakeSnapshot{Reason: reason})
	}
}

// snapshot begins the next one that is wanted, unless one is under way.
func (m *step) snapshot() {
	if m.Phase == Serving && !m.Take.Running && len(m.Wanted) > 0 {
		m.take(Take{For: m.Wanted[0]}, TakeSnapshot{Reason: "requested"})
		m.Wanted = m.Wanted[1:]
	}
}

// refuseWanted answers those whose snapshot was not begun.
func (m *step) refuseWanted(err *messages.Error) {
	m.answerAll(m.Wanted, err)
	m.Wanted = nil
}

func (m *step) take(t Take, e TakeSnapshot) {
	m.Take = t
	m.Take.Running = true
	m.do(e)
}

// taken handles the answer to the snapshot under way, or the late answer for a number that was in doubt.
func (m *step) taken(e Taken) {
	k := Take{}
	if !e.Settled {
		k, m.Take = m.Take, Take{}
	}
	if e.Published {
		m.Landed = max(m.Landed, e.Version)
	}
	if e.Err == nil {
		m.Saved = max(m.Saved, e.Version)
	}
	told := e.Err
	if told != nil && e.Begun {
		told = m.unknown(told)
	}
	m.answer(k.For, told)
	slotTaken := is(e.Err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonSlotTaken})
	if slotTaken {
		// Somebody else writes at this epoch (contract S4): it is over, whatever the lease store says.
		m.do(Tell{messages.LifecycleFenced, e.Err})
		m.giveUp(e.Err)
	}
	switch {
	case slotTaken:
	case k.Last && e.Err != nil && !e.Published && m.Phase != Flushing:
		m.lastFailed(e.Err)
	case m.Phase == SavingLast && !m.unsaved():
		m.endLost(m.Why) // it has landed
	case m.Phase == Flushing && k.Final:
		m.finalTaken(e.Err)
	case m.Phase == Flushing && !e.Settled, m.Phase == AwaitingFence:
		m.flush()
	default:
		m.snapshot()
	}
	m.saveLast()
}

func (m *step) drained(err *messages.Error) {
	switch {
	case m.Phase != Draining:
	case err != nil:
		m.undrain(err)
	default:
		m.flush()
	}
}

// flush goes on if a snapshot that counts holds everything, else it asks for one.
func (m *step) flush() {
	m.Phase = Flushing
	waits := m.Order.Reason == Shutdown && is(m.facts.Fenced, expiredLocally)
	switch {
	case waits && m.unsaved():
		m.Phase = AwaitingFence
		m.saveLast()
	case waits:
		// The last snapshot has landed. It proves nothing, and nothing is concluded from it but that the node may stop:
		// if the lease lives on all the same, everybody who is granted it later lists after that.
		m.handBack()
	case m.facts.Version != m.Saved && m.Take.Running: // its answer comes first
	case m.facts.Version != m.Saved:
		m.take(Take{Final: true}, TakeSnapshot{Reason: "final"})
	case m.facts.Fenced != nil:
		m.undrain(m.facts.Fenced)
	case m.Order.Kind == Forget:
		m.pointOfNoReturn()
	default:
		m.handBack()
	}
}

// finalTaken goes on with the answer to the final snapshot.
func (m *step) finalTaken(err *messages.Error) {
	switch {
	case err == nil:
		m.flush()
	case m.Order.Kind == Forget && hopeless(err) && m.facts.Fenced == nil:
		// There will never be a copy of this ledger, and it must be possible to forget it all the same.
		m.pointOfNoReturn()
	case m.Order.Reason == Shutdown && (is(err, expiredLocally) || !hopeless(err)):
		// What is in the way may pass, and there is time.
		m.Tries++
		m.do(After{Timer: FlushAgain, Tries: m.Tries})
	default:
		m.undrain(err)
	}
}

// handBack releases the lease of a tenant that is drained and saved.
func (m *step) handBack() {
	m.Order.Done = true
	m.release(true)
}

// undrain goes back to serving after a handoff or a forget that failed (contract H3). The ledger takes work again before
// anybody is told.
func (m *step) undrain(err *messages.Error) {
	m.Phase, m.Why = Undraining, err
	m.do(Undrain{})
}

func (m *step) undrained(err *messages.Error) {
	switch {
	case m.Phase != Undraining:
		return
	case err != nil: // the ledger itself is on its way out, and says so
		m.giveUp(err)
		return
	}
	why, again := m.Why, m.Shutdowns
	m.Phase, m.Why, m.Tries, m.Shutdowns = Serving, nil, 0, nil
	m.do(Tell{messages.LifecycleUndrained, why})
	m.answerOrder(why)
	m.saveLast()
	for _, by := range again {
		m.give(Give{By: by, Kind: Handoff, Reason: Shutdown})
	}
}

// hopeless reports whether trying again cannot help. A number whose fate is open never is.
func hopeless(err *messages.Error) bool {
	switch err.Code {
	case messages.CodeFenced, messages.CodeClosed, messages.CodeCorrupt, messages.CodeTooLarge, messages.CodeInvalidArgument, messages.CodeInternal:
		return true
	}
	return false
}
