package machine_test

import (
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/messages"
)

// What surrounds a tenant, reduced to what its machine can notice: a lease child and the lease store behind it, a snapshot child and the
// durable store, a ledger, callers, timers. Every answer may come in any order with the others, may be a refusal, and may be about
// something that was carried out all the same.

type fence uint8

const (
	fenceExpired fence = iota // or not opened yet
	fenceOpen
	fenceClosed // for good
)

type ledger uint8

const (
	noLedger ledger = iota
	ledgerOpening
	ledgerServing
	ledgerDraining
	ledgerDrained
	ledgerUndraining
	ledgerStopping
	ledgerGone
)

// caller is somebody with one question or order.
type caller struct {
	kind    question
	state   uint8  // callerIdle and so on
	version uint64 // of the ledger, when it asked
	sent    bool   // a snapshot for it was asked for
}

const (
	callerIdle uint8 = iota
	callerWaits
	callerGone // waits no more, and is to be answered all the same
	callerAnswered
)

type question uint8

const (
	askAwait question = iota
	askHandoff
	askShutdown
	askIdle
	askAbandon
	askForget
	askSnapshot
)

var questionNames = [...]string{"await", "handoff", "shutdown", "idle", "abandon", "forget", "snapshot"}

// bits of world.pending: what was asked for and is not answered yet.
type bits uint32

const (
	pendLook bits = 1 << iota
	pendAcquire
	pendMarkLineage
	pendMarkForgotten
	pendRelease
	pendRestore
	pendRecord
	pendNote
	pendDeleteCopies
	pendDeleteFiles
	pendSeek
)

type world struct {
	m machine.State

	attempts  int
	leaseUp   bool // the lease child runs
	copierUp  bool
	fence     fence
	granted   bool // this attempt's acquire was granted
	marked    bool // the lineage mark is in the record
	taken     bool // somebody else has been granted a later epoch
	released  bool // a release of this epoch was sent
	answered  bool // and answered
	floor     bool // the floor is set in the lease store
	mayFloor  bool // a request to set it may still land
	copies    bool // they are deleted
	files     bool // they are deleted
	restored  bool
	noted     bool
	ledger    ledger
	version   uint64 // acknowledged
	published uint64
	counted   uint64
	doubt     uint64 // a published number whose answer may still come
	taking    bool
	last      bool
	cut       bool
	cutAt     uint64
	pending   bits
	timers    uint16
	callers   [2]caller

	excused  bool // what is not saved may be lost: somebody else, a bug of our own, an order, a damaged file
	panics   int
	aborted  bool
	stopped  bool
	starting bool // Started is to come
}

func (w *world) has(p bits) bool { return w.pending&p != 0 }

func (w *world) facts() machine.Facts {
	f := machine.Facts{Version: w.version}
	switch w.fence {
	case fenceExpired:
		f.Fenced = errExpired
	case fenceClosed:
		f.Fenced = errClosedFence
	}
	for _, c := range w.callers {
		f.Awaited = f.Awaited || c.kind == askAwait && c.state == callerWaits
	}
	return f
}

// The errors that the surroundings give. They are the same values every time, so that states can be compared.
var (
	key            = messages.Key{Org: "o", Tenant: "t-1"}
	errExpired     = messages.Fenced(key, 1, messages.ReasonExpiredLocally)
	errClosedFence = messages.Fenced(key, 1, messages.ReasonReleased)
	errSlotTaken   = messages.Fenced(key, 1, messages.ReasonSlotTaken)
	errUnavailable = &messages.Error{Code: messages.CodeUnavailable}
	errHeld        = &messages.Error{Code: messages.CodeHeld}
	errTooLarge    = &messages.Error{Code: messages.CodeTooLarge}
	errCorrupt     = &messages.Error{Code: messages.CodeCorrupt}
	errAhead       = &messages.Error{Code: messages.CodeLineageAhead}
	errMissing     = &messages.Error{Code: messages.CodeLineageMissing}
	errStorage     = &messages.Error{Code: messages.CodeStorage}
	errRefused     = &messages.Error{Code: messages.CodeLost}           // the lease has run out
	errSucceeded   = &messages.Error{Code: messages.CodeLost, Epoch: 9} // somebody else has it
	errLate        = &messages.Error{Code: messages.CodeDeadlineExceeded}
	errInvalid     = &messages.Error{Code: messages.CodeInvalidArgument}
)

// violation is what must not happen.
type violation string

func (v violation) Error() string { return string(v) }

// event lets the machine handle e, and carries out what it wants.
func (w *world) event(e machine.Event) {
	before := w.m
	var effects []machine.Effect
	w.m, effects = machine.Step(w.m, w.facts(), e)
	for _, effect := range effects {
		w.perform(before, e, effect)
	}
	w.check(before, e)
	w.settle()
}

func must(ok bool, format string, args ...any) {
	if !ok {
		panic(violation(fmt.Sprintf(format, args...)))
	}
}

func (w *world) ask(p bits) {
	must(!w.has(p), "it is asked for twice")
	w.pending |= p
}

func (w *world) perform(before machine.State, event machine.Event, effect machine.Effect) {
	_, answer := effect.(machine.Answer)
	must(!w.stopped || answer, "%T after the end", effect)
	switch e := effect.(type) {
	case machine.Attempt:
		must(w.attempts == 0 || w.answered, "an attempt while the last one holds the lease")
		*w = world{m: w.m, attempts: w.attempts + 1, leaseUp: true, callers: w.callers, panics: w.panics, timers: w.timers & (1 << machine.OpenTimeout)}
	case machine.Look:
		w.ask(pendLook)
	case machine.Acquire:
		must(w.leaseUp && !w.granted && !w.released, "an acquire in the wrong moment")
		w.ask(pendAcquire)
	case machine.Restore:
		must(w.granted && !w.released && !w.copierUp, "restores without a grant")
		w.copierUp = true
		w.ask(pendRestore)
	case machine.ReadRecord:
		must(e.Contrary != nil && (e.Contrary.Code == messages.CodeLineageAhead || e.Contrary.Code == messages.CodeLineageMissing), "the record is read for nothing")
		w.ask(pendRecord)
	case machine.NoteSaved:
		must(w.restored, "notes what was not restored")
		w.ask(pendNote)
	case machine.MarkLineage:
		must(w.restored && w.noted && w.leaseUp && !w.released && !w.marked, "marks a lineage in the wrong moment")
		w.ask(pendMarkLineage)
	case machine.OpenLedger:
		must(w.restored && w.noted && w.marked && w.ledger == noLedger && !w.released, "opens a ledger that is not restored, or a lineage that is not marked")
		w.ledger = ledgerOpening
	case machine.Drain:
		must(w.ledger == ledgerServing, "drains what does not serve")
		w.ledger = ledgerDraining
	case machine.Undrain:
		must(w.ledger == ledgerDraining || w.ledger == ledgerDrained, "undrains what is not drained")
		w.ledger = ledgerUndraining
	case machine.TakeSnapshot:
		must(w.copierUp && !w.taking && !w.released, "a snapshot in the wrong moment")
		must(!e.Last || w.fence != fenceOpen && e.Version == w.version && w.version > w.published, "a last snapshot that is not due")
		must(e.Last || w.version > w.counted || w.m.Take.For > 0, "a snapshot of what is saved")
		w.taking, w.last, w.cut, w.cutAt = true, e.Last, false, 0
		if c := w.m.Take.For; c > 0 {
			w.callers[c-1].sent = true
		}
	case machine.CancelCut:
		must(w.fence != fenceOpen, "a cut is cancelled that could be made")
	case machine.Hurry:
		must(w.m.Phase == machine.SavingLast, "hurries a snapshot that is not the last")
	case machine.StopSnapshots:
		must(w.taking && w.last || !w.copierUp, "stops snapshots that end by themselves")
		w.copierUp, w.taking = false, false
	case machine.SeekSuccessor:
		w.ask(pendSeek)
	case machine.CloseFence:
		w.fence = fenceClosed
	case machine.StopLedger:
		must(w.ledger == ledgerDrained && w.m.Order.Kind == machine.Forget, "the ledger is stopped in the wrong moment")
		must(w.counted >= w.version || event == machine.Event(machine.Taken{Err: errTooLarge}), "a forget goes on without a copy")
		must(w.fence == fenceOpen, "a forget goes on behind a closed fence")
		w.ledger = ledgerStopping
	case machine.MarkForgotten:
		must(w.ledger == ledgerGone && !w.released && !w.floor, "marks in the wrong moment")
		w.ask(pendMarkForgotten)
	case machine.DeleteCopies:
		must(w.floor && !w.released, "deletes before the floor is set")
		w.ask(pendDeleteCopies)
	case machine.DeleteFiles:
		must(w.copies && !w.released, "deletes files before the copies")
		w.ask(pendDeleteFiles)
	case machine.Release:
		must(!w.released, "a second release")
		must(w.leaseUp && !w.has(pendAcquire) && w.attempts > 0, "a release before the answer to the acquire")
		w.fence = fenceClosed
		w.released = true
		w.ask(pendRelease)
		if order := w.m.Order; e.ByOrder && order.Kind == machine.Handoff {
			saved := w.counted
			if order.Reason == machine.Shutdown {
				saved = max(saved, w.published)
			}
			must(saved >= w.version, "a handoff is concluded from a snapshot that does not hold everything, or does not count")
			must(w.ledger == ledgerDrained, "a handoff with work in flight")
		}
		must(!e.ByOrder || w.m.Order.Begun || w.m.Order.Kind == machine.NoOrder, "an order is carried out that was not begun")
		must(!e.ByOrder || e.Saved <= max(w.counted, w.published) && (w.m.Order.Reason == machine.Shutdown || e.Saved <= w.counted), "says that more is saved than counts")
	case machine.After:
		must(w.timers&(1<<e.Timer) == 0 || e.Timer == machine.LastHurry || e.Timer == machine.LastAgain || e.Timer == machine.FlushAgain, "a timer runs already")
		must(e.Timer != machine.AcquireAgain || e.Err != nil, "nothing says how long to wait")
		must(e.Timer == machine.AcquireAgain || e.Timer == machine.LastHurry || e.Timer == machine.SeekAgain || w.m.Phase == machine.MarkingLineage || e.Tries > 0, "pauses do not grow")
		w.timers |= 1 << e.Timer
	case machine.Answer:
		w.hears(before, event, e)
	case machine.Tell:
		must(e.Kind != messages.LifecycleFailed || e.Err != nil, "a failure without a cause")
	case machine.OpenFailed:
		must(e.Err != nil && !w.m.Served, "an open fails that has succeeded")
	case machine.Stop:
		w.ends()
	}
}

// hears checks an answer against what is true.
func (w *world) hears(before machine.State, event machine.Event, a machine.Answer) {
	must(a.To > 0 && int(a.To) <= len(w.callers), "an answer to nobody")
	c := &w.callers[a.To-1]
	must(c.state == callerWaits || c.state == callerGone, "a second answer")
	code := messages.CodeOf(a.Err)
	if a.Err == nil {
		code = ""
	}
	if a.Wait != machine.NoWait {
		must(c.kind == askAwait, "an order waits")
		must(a.Wait == machine.UntilDrained == w.m.Phase.Draining(), "waits for what does not come")
		must(a.Wait == machine.UntilGone || w.m.Order.Reason.Passing(), "waits for a handoff that callers are told of")
		must(w.m.Phase != machine.Serving && !w.m.Phase.Opening(), "waits for the end of what has just begun")
	}
	plain := a.Err != nil && code != messages.CodeUnknownOutcome
	c.state = callerAnswered
	revoked, _ := event.(machine.Revoke)
	carriedOut := before.Order.By == a.To && before.Order.Kind != machine.NoOrder
	switch c.kind {
	case askAwait:
		must(code != messages.CodeUnknownOutcome, "a question has an outcome")
		must(a.Err != nil || a.Wait != machine.NoWait || w.m.Phase == machine.Serving, "found serving what does not serve")
		must(code != messages.CodeDraining || !w.m.Phase.Draining() || !w.m.Order.Reason.Passing(), "told of a passing handoff")
	case askHandoff, askShutdown, askIdle:
		ended := w.answered && (w.m.Order.Done || before.Order.Done)
		if a.Err == nil && c.kind == askShutdown {
			must(w.answered || w.has(pendAcquire) == false && !w.granted || max(w.published, w.counted) >= w.version, "a shutdown is told that nothing is lost")
			must(max(w.published, w.counted) >= w.version || w.m.Abandoned || w.m.Forgotten || !w.m.Served, "a shutdown is told that nothing is lost")
		} else {
			must(a.Err != nil || ended, "a handoff is told to be done")
		}
		must(!plain || !carriedOut || !w.released, "told that nothing was done by a handoff whose lease was released")
		must(code != messages.CodeUnknownOutcome || w.released && carriedOut, "unknown, and nothing was done")
		must(c.kind != askShutdown || w.stopped || event == machine.Event(revoked) || w.m.Phase == machine.Closed || w.m.Phase == machine.Serving || carriedOut, "a shutdown is refused while the tenant lives")
	case askAbandon:
		must(a.Err != nil || w.answered && w.m.Abandoned, "an abandon is told to be done")
		must(!plain || !carriedOut, "told that nothing was done by an abandon that was begun")
		must(code != messages.CodeUnknownOutcome || w.released, "unknown, and nothing was done")
	case askForget:
		must(a.Err != nil || w.answered && w.floor && w.copies && w.files, "a forget is told to be done")
		must(!plain || !carriedOut || !w.floor && !w.mayFloor && !w.has(pendMarkForgotten), "told that nothing was done by a forget that may have set the floor")
		must(code != messages.CodeUnknownOutcome || w.ledger >= ledgerStopping && carriedOut, "unknown, and nothing was done")
	case askSnapshot:
		must(a.Err != nil || w.counted >= c.version, "a snapshot is told to count")
		taken, _ := event.(machine.Taken)
		must(!plain || !c.sent || event == machine.Event(taken) && !taken.Begun, "told that nothing was done by a snapshot that was begun")
		must(code != messages.CodeUnknownOutcome || c.sent, "unknown, and nothing was done")
	}
	if revoked.By == a.To && plain {
		must(a.Err == revoked.Err, "whoever gives up is told why")
	}
	if plain && w.m.Phase != machine.Closed && revoked.By != a.To && !carriedOut && c.kind != askAwait && c.kind != askSnapshot {
		want := messages.CodeClosed
		if before.Phase.Opening() || before.Phase.Draining() {
			want = messages.CodeDraining
		}
		must(code == want || before.Phase == machine.Undraining, "refused as %s in %s", code, before.Phase)
	}
	if given, ok := event.(machine.Give); ok && given.By == a.To && c.kind == askSnapshot && plain {
		must(code == messages.CodeDraining == (before.Phase.Opening() || before.Phase.Draining()), "refused as %s in %s", code, before.Phase)
	}
}

// ends checks the end of the actor.
func (w *world) ends() {
	w.stopped = true
	for i, c := range w.callers {
		must(c.state != callerWaits && c.state != callerGone, "caller %d is not answered at the end", i+1)
	}
	dealtWith := w.released || w.taken || w.aborted || !w.leaseUp || w.fence == fenceClosed && !w.granted
	must(dealtWith || !w.granted, "it ends with a lease that nobody gives back")
	must(!w.has(pendAcquire) || w.aborted || !w.leaseUp, "it ends while an acquire is under way")
	must(!w.has(pendRelease) || w.aborted || !w.leaseUp, "it ends before the release is answered")
	must(max(w.published, w.counted) >= w.version || w.excused || w.m.Abandoned || w.aborted, "what was acknowledged is in no copy")
	must(!w.m.Forgotten || w.floor, "it says that it is forgotten")
	must(w.m.Forgotten || !w.floor || w.mayFloor || w.excused || w.aborted || !w.leaseUp, "it does not know that it is forgotten")
}

// check looks at the state between two events.
func (w *world) check(before machine.State, event machine.Event) {
	s := w.m
	if w.stopped {
		must(s.Phase == machine.Closed, "it has stopped in %s", s.Phase)
		for _, c := range w.callers {
			must(c.state == callerIdle || c.state == callerAnswered, "who comes after the end is not answered")
		}
		must(!w.aborted || w.fence == fenceClosed || w.attempts == 0, "an abort leaves the fence open")
		return
	}
	must(s.Phase != machine.Closed, "closed, and not stopped")
	if s.Phase == machine.Serving {
		must(w.ledger == ledgerServing && !w.released && !w.floor && !w.mayFloor, "it serves after a release or a mark, or without a ledger")
		must(s.Order.Kind == machine.NoOrder && len(s.Openers) == 0 && s.Why == nil, "something is left of what is over")
		must(len(s.Shutdowns) == 0, "a shutdown is not carried out by a tenant that serves")
		expired := w.fence == fenceExpired && w.version > max(w.published, w.counted)
		must(!expired || w.taking || s.Pausing || w.fence == fenceOpen || !noticed(event) || w.hopeless(event), "no last snapshot is under way")
	}
	must(!w.released || w.fence == fenceClosed, "the fence is open after a release")
	must(s.Served || s.Phase != machine.Serving && !s.Phase.Draining(), "it has served")
	must(len(s.Openers) == 0 || s.Phase.Opening() || s.Phase == machine.Releasing, "who waits for the open of what does not open?")
	must(len(s.Wanted) == 0 || s.Take.Running || s.Phase == machine.Releasing, "nobody takes the snapshot that is wanted")
	must(s.Take.Running == w.taking || !w.copierUp, "a snapshot is under way, or is not")
	must(s.Order.Kind == machine.NoOrder || s.Phase >= machine.Draining, "an order before it can be carried out")
	must(s.Saved == w.counted, "%d is saved, and %d counts", s.Saved, w.counted)
	must(max(s.Landed, s.Saved) == max(w.published, w.counted), "%d has landed", s.Landed)
	must(s.Forgotten == false || w.floor, "forgotten without a floor")
	switch event.(type) {
	case machine.Started:
		must(w.has(pendAcquire) || w.has(pendLook), "it does not start")
	case machine.Lost:
		must(w.fence == fenceClosed, "a lost lease leaves the fence to run out")
	case machine.Resumed:
		if s.Phase.Forgetting() {
			must(s.Tries == before.Tries, "a forget tries for ever")
		} else if s.Phase == machine.Serving {
			must(s.Tries == 0, "the next outage begins with long pauses")
		}
	case machine.SnapshotDue:
		must(w.taking || s.Phase != machine.Serving || w.fence != fenceOpen || w.version == w.counted, "no snapshot is taken when it is due")
	}
}

func noticed(e machine.Event) bool {
	switch e.(type) {
	case machine.Expired, machine.Taken, machine.Undrained:
		return true
	}
	return false
}

func (w *world) hopeless(e machine.Event) bool {
	t, ok := e.(machine.Taken)
	return ok && t.Err != nil && t.Err.Code != messages.CodeUnavailable
}

// settle forgets what can make no difference any more, so that the same situation is the same state.
func (w *world) settle() {
	for i, c := range w.callers {
		if c.state == callerAnswered {
			w.callers[i] = caller{state: callerAnswered}
		}
	}
	if !w.m.Phase.Opening() && w.m.Phase != machine.Withdrawing {
		w.timers &^= 1 << machine.OpenTimeout
	}
}

// key is what tells worlds apart.
func (w *world) key(b []byte) []byte {
	s := &w.m
	number := func(n int) { b = append(b, byte(n)) }
	flags := func(list ...bool) {
		bits := 0
		for i, on := range list {
			if on {
				bits |= 1 << i
			}
		}
		number(bits)
	}
	waiting := func(list []machine.Caller) {
		for _, c := range list {
			number(int(c))
		}
		number(255)
	}
	number(int(s.Phase))
	number(int(s.Epoch))
	number(s.Tries)
	number(int(s.Saved<<4 | s.Landed))
	flags(s.Lineage, s.Take.Running, s.Take.Last, s.Take.Final, s.Pausing, s.Order.Begun, s.Order.Done, s.Safe)
	flags(s.Served, s.Abandoned, s.Forgotten)
	waiting(s.Openers)
	number(int(s.Take.For))
	waiting(s.Wanted)
	waiting(s.Shutdowns)
	number(int(s.Order.Kind)<<4 | int(s.Order.Reason))
	number(int(s.Order.By))
	if s.Why != nil {
		b = append(b, s.Why.Code...)
		b = append(b, s.Why.Reason...)
		number(int(s.Why.Epoch))
	}
	number(w.attempts<<4 | w.panics)
	flags(w.leaseUp, w.copierUp, w.granted, w.marked, w.taken, w.released, w.answered, w.floor)
	flags(w.mayFloor, w.copies, w.files, w.restored, w.noted, w.taking, w.last, w.cut)
	flags(w.excused, w.aborted, w.stopped, w.starting)
	number(int(w.fence)<<4 | int(w.ledger))
	number(int(w.version)<<4 | int(w.published))
	number(int(w.counted)<<4 | int(w.doubt))
	number(int(w.cutAt))
	number(int(w.pending))
	number(int(w.pending >> 8))
	number(int(w.timers))
	for _, c := range w.callers {
		number(int(c.kind)<<4 | int(c.state))
		number(int(c.version))
		flags(c.sent)
	}
	return b
}

func (w world) clone() *world {
	w.m.Openers, w.m.Wanted, w.m.Shutdowns = slices.Clone(w.m.Openers), slices.Clone(w.m.Wanted), slices.Clone(w.m.Shutdowns)
	return &w
}
