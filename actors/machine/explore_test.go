package machine_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/messages"
)

// surroundings is how much may happen. What is finite by itself is not bounded here: relative epochs, one answer for each request.
type surroundings struct {
	name     string
	callers  int
	asks     []question
	versions uint64 // commits
	tries    int    // failures in a row of one thing
	opening  bool   // what an open can meet
	lease    bool   // outages and losses of the lease while it serves
	store    bool   // failures of the durable store while it serves
	revokes  bool
	panics   int // of children
	aborts   bool
}

var all = []question{askAwait, askHandoff, askShutdown, askIdle, askAbandon, askForget, askSnapshot}

// explorations are together what TestMachine explores: each looks at one side in full, the smallest first.
var explorations = []surroundings{
	{name: "an open", callers: 2, asks: []question{askAwait, askShutdown, askHandoff}, tries: 1, opening: true, lease: true, aborts: true, panics: 1},
	{name: "a forget", callers: 1, asks: []question{askForget}, versions: 1, tries: 7, lease: true, store: true, revokes: true, panics: 1},
	{name: "two snapshots", callers: 2, asks: []question{askSnapshot, askShutdown, askAwait, askIdle}, versions: 1, tries: 1, lease: true, store: true, revokes: true},
	{name: "two orders", callers: 2, asks: []question{askHandoff, askShutdown, askAbandon, askForget, askIdle}, versions: 1, tries: 1, lease: true, store: true, revokes: true},
	{name: "one caller, bugs", callers: 1, asks: all, versions: 1, tries: 1, lease: true, store: true, revokes: true, panics: 2, aborts: true},
	{name: "one caller", callers: 1, asks: all, versions: 2, tries: 2, lease: true, store: true, revokes: true},
}

// move is something that may happen next.
type move struct {
	name     string
	progress bool // happens by itself, in time
	make     func(*world)
}

// moves returns what may happen next in w.
func (w *world) moves(c surroundings) (out []move) {
	add := func(name string, f func(*world)) { out = append(out, move{name, true, f}) }
	maybe := func(name string, f func(*world)) { out = append(out, move{name, false, f}) }
	if w.stopped {
		w.callerMoves(surroundings{callers: c.callers, asks: c.asks}, maybe)
		return out
	}
	if w.starting {
		add("started", func(w *world) { w.starting = false; w.event(machine.Started{}) })
		if c.opening {
			add("started again", func(w *world) { w.starting = false; w.event(machine.Started{Before: errAhead}) })
		}
		return out
	}
	w.callerMoves(c, maybe)
	w.leaseMoves(c, add, maybe)
	w.copierMoves(c, add)
	w.ledgerMoves(c, add, maybe)
	for t := machine.OpenTimeout; t <= machine.SeekAgain; t++ {
		if w.timers&(1<<t) != 0 {
			may := add
			if t == machine.OpenTimeout {
				may = maybe // what ends only by it is stuck
			}
			may(fmt.Sprintf("timer %d", t), func(w *world) { w.timers &^= 1 << t; w.event(machine.Elapsed{Timer: t}) })
		}
	}
	if c.aborts {
		maybe("abort", func(w *world) { w.aborted = true; w.event(machine.Abort{Err: machine.NodeDown()}) })
	}
	return out
}

func (w *world) callerMoves(c surroundings, maybe func(string, func(*world))) {
	for i := range c.callers {
		by := machine.Caller(i + 1)
		switch w.callers[i].state {
		case callerIdle:
			if i > 0 && w.callers[i-1].state == callerIdle {
				continue // they are alike
			}
			for _, ask := range c.asks {
				maybe(questionNames[ask], func(w *world) {
					w.callers[i] = caller{kind: ask, state: callerWaits, version: w.version}
					switch ask {
					case askAwait:
						w.event(machine.Await{By: by})
					case askHandoff:
						w.event(machine.Give{By: by, Kind: machine.Handoff})
					case askShutdown:
						w.event(machine.Give{By: by, Kind: machine.Handoff, Reason: machine.Shutdown})
					case askIdle:
						w.event(machine.Give{By: by, Kind: machine.Handoff, Reason: machine.Idle})
					case askAbandon:
						w.event(machine.Give{By: by, Kind: machine.Abandon})
					case askForget:
						w.event(machine.Give{By: by, Kind: machine.Forget})
					case askSnapshot:
						w.event(machine.Give{By: by, Kind: machine.Snapshot})
					}
				})
			}
		case callerWaits:
			if w.stopped {
				continue
			}
			if w.callers[i].kind == askAwait {
				maybe("nobody waits", func(w *world) { w.callers[i].state = callerGone })
			} else if c.revokes {
				maybe("revoke", func(w *world) {
					w.callers[i].state = callerGone
					w.event(machine.Revoke{By: by, Err: errLate})
					must(w.callers[i].state == callerAnswered, "who gives up is not told what was done")
				})
			}
		}
	}
}

func (w *world) leaseMoves(c surroundings, add, maybe func(string, func(*world))) {
	answer := func(p bits, name string, e machine.Event, also func(*world)) {
		add(name, func(w *world) {
			w.pending &^= p
			if also != nil {
				also(w)
			}
			w.event(e)
		})
	}
	if w.has(pendLook) {
		answer(pendLook, "looked", machine.Looked{}, nil)
		answer(pendLook, "still there", machine.Looked{Err: errAhead}, nil)
	}
	if w.has(pendRecord) {
		answer(pendRecord, "record unread", machine.RecordRead{Err: errUnavailable}, nil)
		answer(pendRecord, "record of another", machine.RecordRead{Err: errSucceeded}, nil)
		answer(pendRecord, "contrary", machine.RecordRead{Contrary: errAhead}, nil)
		if w.attempts < 2 {
			answer(pendRecord, "own base", machine.RecordRead{Own: true, Contrary: errAhead}, nil)
		}
	}
	if w.has(pendSeek) {
		answer(pendSeek, "no successor", machine.SuccessorSought{}, nil)
		answer(pendSeek, "successor", machine.SuccessorSought{Found: true}, func(w *world) { w.taken, w.excused = true, true })
	}
	if !w.leaseUp {
		return
	}
	if w.has(pendAcquire) {
		if w.fence != fenceClosed || w.m.Phase == machine.Withdrawing {
			marked := messages.Lease{Epoch: uint64(w.attempts), Lineage: 1}
			fresh := messages.Lease{Epoch: uint64(w.attempts)}
			granted := func(w *world) {
				w.granted = true
				if w.fence != fenceClosed {
					w.fence = fenceOpen
				}
			}
			answer(pendAcquire, "granted", machine.Acquired{Lease: marked}, func(w *world) { granted(w); w.marked = true })
			if c.opening {
				answer(pendAcquire, "granted anew", machine.Acquired{Lease: fresh}, granted)
			}
		}
		if c.opening {
			answer(pendAcquire, "held", machine.AcquireFailed{Err: errHeld}, nil)
			answer(pendAcquire, "unanswered", machine.AcquireFailed{Err: errUnavailable}, func(w *world) { w.granted = w.m.Phase == machine.Withdrawing })
			answer(pendAcquire, "predecessor", machine.AcquireFailed{Err: errHeld, Predecessor: true}, nil)
		}
	}
	if w.has(pendMarkLineage) {
		answer(pendMarkLineage, "marked", machine.LineageMarked{}, func(w *world) { w.marked = true })
		if c.opening {
			answer(pendMarkLineage, "mark unanswered", machine.LineageMarked{Err: errUnavailable}, nil)
			answer(pendMarkLineage, "mark lost", machine.LineageMarked{Err: errRefused}, func(w *world) { w.taken = true })
			answer(pendMarkLineage, "mark refused", machine.LineageMarked{Err: errInvalid}, nil)
		}
	}
	if w.has(pendMarkForgotten) {
		answer(pendMarkForgotten, "floor set", machine.FloorSet{}, func(w *world) { w.floor, w.mayFloor = true, false })
		answer(pendMarkForgotten, "floor unanswered", machine.FloorSet{Err: errUnavailable}, func(w *world) { w.mayFloor = true })
		answer(pendMarkForgotten, "floor lost", machine.FloorSet{Err: errRefused}, func(w *world) { w.mayFloor = false })
		answer(pendMarkForgotten, "floor fenced", machine.FloorSet{Err: errExpired}, nil)
	}
	if w.has(pendRelease) {
		answer(pendRelease, "released", machine.Released{}, func(w *world) { w.answered = true })
		answer(pendRelease, "release unanswered", machine.Released{Err: errUnavailable}, func(w *world) { w.answered = true })
	}
	if c.lease && w.granted && !w.taken && !w.released {
		switch w.fence {
		case fenceOpen:
			maybe("expired", func(w *world) { w.fence = fenceExpired; w.event(machine.Expired{}) })
		case fenceExpired:
			add("resumed", func(w *world) { w.fence = fenceOpen; w.event(machine.Resumed{}) })
		}
		lose := func(name string, err *messages.Error) {
			maybe(name, func(w *world) {
				w.taken, w.excused = true, w.excused || err == errSucceeded
				w.event(machine.Lost{Err: err})
			})
		}
		lose("lost", errRefused)
		lose("succeeded", errSucceeded)
	}
	if w.panics < c.panics {
		maybe("lease child gone", func(w *world) {
			w.leaseUp, w.panics, w.mayFloor = false, w.panics+1, w.mayFloor || w.has(pendMarkForgotten)
			w.pending &^= pendAcquire | pendMarkLineage | pendMarkForgotten | pendRelease
			w.event(machine.Gone{Child: machine.LeaseChild})
		})
	}
}

func (w *world) copierMoves(c surroundings, add func(string, func(*world))) {
	if !w.copierUp {
		return
	}
	answer := func(p bits, name string, e machine.Event, also func(*world)) {
		add(name, func(w *world) {
			w.pending &^= p
			if also != nil {
				also(w)
			}
			w.event(e)
		})
	}
	if w.has(pendRestore) {
		answer(pendRestore, "restored", machine.Restored{}, func(w *world) { w.restored = true })
		if c.opening {
			for _, err := range []*messages.Error{errUnavailable, errCorrupt, errAhead, errMissing} {
				answer(pendRestore, "restore: "+string(err.Code), machine.Restored{Err: err}, nil)
			}
		}
	}
	if w.has(pendDeleteCopies) {
		answer(pendDeleteCopies, "copies deleted", machine.CopiesDeleted{}, func(w *world) { w.copies = true })
		answer(pendDeleteCopies, "copies not deleted", machine.CopiesDeleted{Err: errUnavailable}, nil)
	}
	w.takeMoves(c, add)
	if w.doubt > 0 {
		add("settled", func(w *world) {
			e := machine.Taken{Settled: true, Published: true, Version: w.doubt}
			w.published = max(w.published, w.doubt)
			if w.fence == fenceOpen {
				w.counted = max(w.counted, w.doubt)
			} else {
				e.Err = w.facts().Fenced
			}
			w.doubt = 0
			w.event(e)
		})
	}
	if w.panics < c.panics {
		add("snapshot child gone", func(w *world) {
			w.copierUp, w.taking, w.panics, w.excused = false, false, w.panics+1, true
			w.pending &^= pendRestore | pendDeleteCopies
			w.event(machine.Gone{Child: machine.SnapshotChild})
		})
	}
}

// takeMoves are those of a snapshot: it is cut, then published and answered.
func (w *world) takeMoves(c surroundings, add func(string, func(*world))) {
	if !w.taking {
		return
	}
	answer := func(name string, e machine.Taken, also func(*world)) {
		add(name, func(w *world) {
			w.taking = false
			if also != nil {
				also(w)
			}
			w.event(e)
		})
	}
	if !w.cut {
		if w.last || w.fence == fenceOpen {
			add("cut", func(w *world) { w.cut, w.cutAt = true, w.version })
		} else {
			answer("not cut", machine.Taken{Err: w.facts().Fenced}, nil)
		}
		if c.store && w.m.Tries < c.tries {
			answer("cannot be cut", machine.Taken{Err: errUnavailable}, nil)
			answer("too large", machine.Taken{Err: errTooLarge}, func(w *world) { w.excused = true })
		}
		return
	}
	published := machine.Taken{Published: true, Version: w.cutAt, Begun: true}
	if w.fence != fenceOpen {
		published.Err = w.facts().Fenced
	}
	answer("published", published, func(w *world) {
		w.published = max(w.published, w.cutAt)
		if published.Err == nil {
			w.counted = max(w.counted, w.cutAt)
		}
	})
	if c.store {
		if w.m.Tries < c.tries {
			answer("in doubt", machine.Taken{Err: errUnavailable, Begun: true}, func(w *world) { w.doubt = w.cutAt })
		}
		answer("slot taken", machine.Taken{Err: errSlotTaken, Begun: true}, func(w *world) { w.excused = true })
	}
}

func (w *world) ledgerMoves(c surroundings, add, maybe func(string, func(*world))) {
	opened := func(name string, state ledger, e machine.Event) {
		add(name, func(w *world) { w.ledger = state; w.event(e) })
	}
	if w.has(pendNote) {
		add("noted", func(w *world) { w.pending &^= pendNote; w.noted = true; w.event(machine.SavedNoted{}) })
		if c.opening {
			add("not noted", func(w *world) { w.pending &^= pendNote; w.event(machine.SavedNoted{Err: errStorage}) })
		}
	}
	if w.has(pendDeleteFiles) {
		add("files deleted", func(w *world) { w.pending &^= pendDeleteFiles; w.files = true; w.event(machine.FilesDeleted{}) })
		add("files not deleted", func(w *world) { w.pending &^= pendDeleteFiles; w.event(machine.FilesDeleted{Err: errStorage}) })
	}
	switch w.ledger {
	case noLedger, ledgerGone:
		return
	case ledgerOpening:
		opened("ledger opened", ledgerServing, machine.LedgerOpened{})
		if c.opening {
			opened("ledger not opened", noLedger, machine.LedgerOpened{Err: errStorage})
		}
	case ledgerServing:
		if w.m.Phase == machine.Serving && w.version > w.counted {
			add("snapshot due", func(w *world) { w.event(machine.SnapshotDue{Reason: "periodic"}) })
		}
	case ledgerDraining:
		opened("drained", ledgerDrained, machine.Drained{})
		opened("not drained", ledgerDraining, machine.Drained{Err: errLate})
	case ledgerUndraining:
		opened("undrained", ledgerServing, machine.Undrained{})
		if w.panics < c.panics {
			add("not undrained", func(w *world) {
				w.ledger, w.panics, w.excused = noLedger, w.panics+1, true
				w.event(machine.Undrained{Err: errInvalid})
			})
		}
	case ledgerStopping:
		opened("ledger stopped", ledgerGone, machine.Gone{Child: machine.LedgerChild})
	}
	if (w.ledger == ledgerServing || w.ledger == ledgerDraining) && w.fence == fenceOpen && w.version < c.versions {
		maybe("commit", func(w *world) { w.version++ })
	}
	if w.panics < c.panics && w.ledger != ledgerStopping {
		maybe("ledger gone", func(w *world) {
			w.ledger, w.panics, w.excused = ledgerGone, w.panics+1, true
			w.event(machine.Gone{Child: machine.LedgerChild})
		})
		if w.ledger > ledgerOpening {
			maybe("corrupt", func(w *world) { w.panics, w.excused = w.panics+1, true; w.event(machine.Corrupt{Err: errCorrupt}) })
		}
	}
}

// explored is what an exploration found.
type explored struct {
	states, transitions int
	edges               map[string]bool // from phase to phase, by event
	violation           string
}

// explore visits every state that can be reached, breadth first.
func explore(c surroundings, limit int) (out explored) {
	type state struct {
		w    *world
		from int
		by   string
	}
	out.edges = map[string]bool{}
	var b []byte
	start := &world{starting: true, timers: 1 << machine.OpenTimeout, m: machine.State{Key: key}}
	states := []state{{w: start, from: -1}}
	seen := map[string]int{string(start.key(nil)): 0}
	var back [][2]int32 // progress, from and to
	path := func(i int, last string) string {
		var names []string
		for ; states[i].from >= 0; i = states[i].from {
			names = append(names, fmt.Sprintf("%s [%s]", states[i].by, states[i].w.m.Phase))
		}
		slices.Reverse(names)
		return strings.Join(append(names, last), "\n  ")
	}
	for i := 0; i < len(states); i++ {
		w := states[i].w
		for _, m := range w.moves(c) {
			next := w.clone()
			if v := try(next, m.make); v != "" {
				out.violation = fmt.Sprintf("%s, in %q:\n  %s\n%+v", v, c.name, path(i, m.name), next.m)
				return out
			}
			out.transitions++
			if next.m.Phase != w.m.Phase {
				out.edges[fmt.Sprintf("%s -> %s", w.m.Phase, next.m.Phase)] = true
			}
			b = next.key(b[:0])
			j, known := seen[string(b)]
			if !known {
				j = len(states)
				if j >= limit {
					out.violation = fmt.Sprintf("more than %d states in %q", limit, c.name)
					return out
				}
				seen[string(b)] = j
				states = append(states, state{w: next, from: i, by: m.name})
			}
			if m.progress {
				back = append(back, [2]int32{int32(j), int32(i)})
			}
		}
	}
	out.states = len(states)
	// Every state leads to one where nobody waits, by what happens in time; nothing ends but the actor.
	into := make([][]int32, len(states))
	for _, e := range back {
		into[e[0]] = append(into[e[0]], e[1])
	}
	good := make([]bool, len(states))
	var queue []int32
	for i, s := range states {
		waits := false
		for _, c := range s.w.callers {
			waits = waits || c.state == callerWaits || c.state == callerGone
		}
		if s.w.stopped || !waits && s.w.m.Phase == machine.Serving {
			good[i] = true
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, j := range into[i] {
			if !good[j] {
				good[j] = true
				queue = append(queue, j)
			}
		}
	}
	if i := slices.Index(good, false); i >= 0 {
		out.violation = fmt.Sprintf("stuck, in %q:\n  %s\n%+v", c.name, path(i, ""), states[i].w.m)
	}
	return out
}

func try(w *world, f func(*world)) (found string) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case violation:
			found = v.Error()
		default:
			found = fmt.Sprint("panic: ", v)
		}
	}()
	f(w)
	return ""
}

// TestMachine explores the machine in every one of its surroundings. A state that breaks a rule fails, and so does an
// exploration that does not come to its end.
func TestMachine(t *testing.T) {
	states, transitions := 0, 0
	edges := map[string]bool{}
	for _, c := range explorations {
		out := explore(c, 2_000_000)
		require.Empty(t, out.violation)
		t.Logf("%s: %d states, %d transitions", c.name, out.states, out.transitions)
		states, transitions = states+out.states, transitions+out.transitions
		for e := range out.edges {
			edges[e] = true
		}
	}
	t.Logf("%d states, %d transitions, %d ways from phase to phase", states, transitions, len(edges))
	require.Equal(t, table(t), slices.Sorted(maps.Keys(edges)), "the table in doc.go")
}

// table returns the ways that doc.go lists. Those to Closed are not in it: every phase has one.
func table(t *testing.T) (ways []string) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	phases := map[string]bool{}
	for p := machine.Looking; p < machine.Closed; p++ {
		phases[p.String()] = true
		ways = append(ways, p.String()+" -> Closed")
	}
	for line := range strings.Lines(string(doc)) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == "//" && phases[f[1]] && phases[f[2]] {
			ways = append(ways, f[1]+" -> "+f[2])
		}
	}
	slices.Sort(ways)
	return ways
}
