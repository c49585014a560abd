package model

import "slices"

// ending is what the lease is in this state.
func (s *state) ending(rec record) ending {
	e := ending{grant: rec.grant, exp: rec.exp, rel: rec.rel}
	if !rec.rel && rec.link.mem != 0 {
		e.exp = max(e.exp, s.logs[rec.link.log].mem[rec.link.mem].exp)
	}
	return e
}

// note adds what the lease is now to what held during the read under way, as far as the read can say it at all: it says
// the grant that it read in the record.
func (s *state) note() {
	r := &s.reader
	now := s.ending(s.rec)
	if !r.on || now.rel || now.grant != r.snap.grant {
		return
	}
	if i := slices.Index(r.ends[:], now.exp+1); i >= 0 {
		return
	}
	r.ends[0] = now.exp + 1
	slices.Sort(r.ends[:])
}

// read lists the steps of a reader: the record, then the log. What it says of the lease must have held at one instant
// between the two.
func (m *machine) read(s *state) {
	if !s.reader.on {
		if !s.rec.rel && s.rec.link.mem != 0 {
			m.step(s, "a reader reads the record", -1, func(n *state, _ *process) bool {
				n.reader = reader{on: true, snap: n.rec}
				n.note()
				return true
			})
		}
		return
	}
	m.step(s, "the reader reads the log", -1, func(n *state, _ *process) bool {
		said := n.ending(n.reader.snap)
		if !slices.Contains(n.reader.ends[:], said.exp+1) {
			n.bad = p5
		}
		n.reader = reader{}
		return true
	})
}
