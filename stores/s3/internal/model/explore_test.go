package model

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// run is what an exploration found.
type run struct {
	states int
	depth  int
	whole  bool // every reachable state was seen
	bad    violation
	trace  []string
}

var seed = maphash.MakeSeed()

func fingerprint(s *state) uint64 { return maphash.Comparable(seed, *s) }

// explore goes through the reachable states, those of fewer steps first, until one breaks a property. States are told
// apart by 64-bit fingerprints: of two million, two share one with a chance of one in ten million.
func explore(c config, limit int, want violations, also func(*machine, *state) violation) run {
	m := &machine{config: c}
	first := m.initial()
	m.norm(&first)
	parent := map[uint64]uint64{fingerprint(&first): 0}
	layer := []state{first}
	out := run{whole: true}
	for len(layer) > 0 && out.bad == none {
		var next []state
		for i := range layer {
			s := &layer[i]
			at := fingerprint(s)
			m.emit = func(_ label, n *state) {
				if !want.has(n.bad) {
					n.bad = none
				}
				f := fingerprint(n)
				if _, ok := parent[f]; ok || out.bad != none {
					return
				}
				parent[f] = at
				bad := n.bad
				if bad == none && also != nil {
					bad = also(m, n)
				}
				if bad != none {
					out.bad, out.trace = bad, m.replay(first, parent, f, want)
					return
				}
				next = append(next, *n)
			}
			m.steps(s)
			if out.bad != none || len(parent) > limit {
				break
			}
		}
		if out.whole = len(parent) <= limit; !out.whole {
			break
		}
		layer = next
		out.depth++
	}
	out.states = len(parent)
	out.whole = out.whole && out.bad == none
	return out
}

// replay names the steps that lead to a state.
func (m *machine) replay(s state, parent map[uint64]uint64, end uint64, want violations) []string {
	var path []uint64
	for f := end; f != fingerprint(&s); f = parent[f] {
		path = append(path, f)
	}
	var out []string
	for i := len(path) - 1; i >= 0; i-- {
		found := false
		var to state
		m2 := &machine{config: m.config}
		m2.emit = func(l label, n *state) {
			if !want.has(n.bad) {
				n.bad = none
			}
			if !found && fingerprint(n) == path[i] {
				found, to = true, *n
				who := ""
				if l.proc >= 0 {
					who = string(rune('A'+l.proc)) + " "
				}
				out = append(out, who+l.what)
			}
		}
		m2.steps(&s)
		s = to
	}
	return out
}

func (r run) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states, depth %d, whole: %v, breaks: %v", r.states, r.depth, r.whole, r.bad)
	for i, t := range r.trace {
		fmt.Fprintf(&b, "\n  %2d. %s", i+1, t)
	}
	return b.String()
}
