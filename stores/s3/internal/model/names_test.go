package model

import "math/bits"

// Names. What a state is depends on which versions, members and grants are the same, not on how they are called. So
// each state is brought into a form in which the current version of an object is 1, those that requests under way would
// make are 2, 3, …, and all that can never be current again are `stale`; members and grants are numbered in the order in
// which a walk through the state meets them. With this the states are finitely many without a bound on how long a run is.
//
// An epoch is one more than the one before it and never comes again: a grant stands for it. That the numbers are 1, 2, 3, …
// is P2: each grant that lands replaces the very one that its sender read.
const (
	stale = 63
	fresh = 62 // a name for what a step makes, until norm renames it
)

// puts calls do for each request for a log that may still matter.
func (s *state) puts(do func(*logPut)) {
	for i := range s.procs {
		do(&s.procs[i].write)
		do(&s.procs[i].revoke)
	}
	do(&s.lateLog)
}

// recPuts calls do for each request for the record that may still matter.
func (s *state) recPuts(do func(*recPut)) {
	for i := range s.procs {
		do(&s.procs[i].record)
	}
	do(&s.lateRec)
}

// canLand says whether a request for a log would be carried out if it arrived now.
func (m *machine) canLand(s *state, w *logPut) bool {
	return w.on && !w.landed && (s.logs[w.log].ver == w.cond || m.mutant == revokeUnconditionally && w.kind == revoke)
}

// mayLand says whether that may ever be so.
func (m *machine) mayLand(s *state, w *logPut) bool {
	return m.canLand(s, w) || w.on && !w.landed && w.cond == 0 && s.deletes < m.deletes
}

// norm brings states that cannot be told apart into one form.
func (m *machine) norm(s *state) {
	if !m.mayLand(s, &s.lateLog) {
		s.lateLog = logPut{}
	}
	if s.lateRec.on && s.rec.ver != s.lateRec.cond {
		s.lateRec = recPut{}
	}
	for i := range s.procs {
		p := &s.procs[i]
		if p.belief == 0 {
			p.grant = 0
		}
		if !p.write.waiting {
			p.write.grant = 0
		}
		if p.write.landed {
			p.write.cond, p.write.mem = 0, 0
		}
	}
	m.nameRecords(s)
	for l := range s.logs {
		m.nameLog(s, uint8(l))
		s.nameMembers(uint8(l))
	}
	s.nameGrants()
}

func (m *machine) nameRecords(s *state) {
	now := s.rec.ver
	name := func(v *uint8) {
		switch *v {
		case 0:
		case now:
			*v = 1
		default:
			*v = stale
		}
	}
	next := uint8(2)
	s.recPuts(func(r *recPut) {
		switch {
		case !r.on:
			return
		case r.landed:
			r.cond, r.base = 0, 0
			name(&r.rec.ver)
			return
		case r.cond == now:
			r.rec.ver = next
			next++
		default: // refused: the rest says nothing any more
			r.base, r.rec = 0, record{}
		}
		if r.cond == 0 && now != 0 {
			r.cond = stale
		} else {
			name(&r.cond)
		}
	})
	for i := range s.procs {
		p := &s.procs[i]
		name(&p.known.ver)
		if p.at != idle && p.snap.ver == 0 && now != 0 {
			p.snap.ver = stale
		} else {
			name(&p.snap.ver)
		}
	}
	name(&s.reader.snap.ver)
	if now != 0 {
		s.rec.ver = 1
	}
}

func (m *machine) nameLog(s *state, log uint8) {
	now := s.logs[log].ver
	name := func(v *uint8) {
		switch {
		case *v == 0 && (now == 0 || s.deletes < m.deletes):
		case *v == now:
			*v = 1
		default:
			*v = stale
		}
	}
	next := uint8(2)
	s.puts(func(w *logPut) {
		if !w.on || w.log != log {
			return
		}
		switch {
		case w.landed:
			name(&w.ver)
			return
		case m.mayLand(s, w):
			w.ver = next
			next++
		default:
			w.ver = 0
		}
		name(&w.cond)
	})
	for i := range s.procs {
		p := &s.procs[i]
		if p.log == log {
			name(&p.logVer)
		}
		if p.at == haveLogOnly && log == 0 || p.at == haveLog && p.snap.link.log == log {
			name(&p.snapLog.ver)
		}
	}
	if now != 0 {
		s.logs[log].ver = 1
	}
}

// links calls do for each link to a log, besides what stands in the log itself, in a fixed order.
func (s *state) links(log uint8, do func(mem *uint8)) {
	see := func(l *link) {
		if l.log == log && l.mem != 0 {
			do(&l.mem)
		}
	}
	see(&s.rec.link)
	see(&s.reader.snap.link)
	for i := range s.procs {
		see(&s.procs[i].known.link)
		see(&s.procs[i].snap.link)
	}
	s.recPuts(func(r *recPut) { see(&r.rec.link); see(&r.before) })
	s.puts(func(w *logPut) {
		if w.log == log && w.mem != 0 {
			do(&w.mem)
		}
	})
}

// freshMember is a member of a log that nothing names.
func (s *state) freshMember(log uint8) uint8 {
	used := uint64(1)
	s.links(log, func(m *uint8) { used |= 1 << *m })
	return uint8(bits.TrailingZeros64(^used))
}

// nameMembers numbers the members of a log anew, and drops from it what nothing names.
func (s *state) nameMembers(log uint8) {
	var to [maxMembers + 1]uint8
	next := uint8(1)
	name := func(m *uint8) {
		if to[*m] == 0 {
			to[*m] = next
			next++
		}
		*m = to[*m]
	}
	s.links(log, name)
	move := func(l *logObject) {
		var out [maxMembers + 1]entry
		for m, e := range l.mem {
			if to[m] != 0 {
				out[to[m]] = e
			}
		}
		l.mem = out
	}
	for i := range s.procs {
		if p := &s.procs[i]; p.at == haveLogOnly && log == 0 || p.at == haveLog && p.snap.link.log == log {
			move(&p.snapLog)
		}
	}
	move(&s.logs[log])
}

func (s *state) nameGrants() {
	var to [64]uint8
	next := uint8(1)
	name := func(g *uint8) {
		if *g == 0 {
			return
		}
		if to[*g] == 0 {
			to[*g] = next
			next++
		}
		*g = to[*g]
	}
	name(&s.rec.grant)
	for i := range s.procs {
		p := &s.procs[i]
		name(&p.grant)
		name(&p.known.grant)
		name(&p.snap.grant)
		name(&p.write.grant)
	}
	s.recPuts(func(r *recPut) { name(&r.base); name(&r.rec.grant) })
	name(&s.lateLog.grant)
	name(&s.reader.snap.grant)
}
