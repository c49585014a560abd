package model

// answers lists what a process can learn of its requests. An answer comes at any time after its request landed. A
// request that cannot land any more is refused, and its sender reads the object again. One that still can is lost, or
// late: its sender waits on (that is no step), or gives up, and it lands at any later time, or never.
func (m *machine) answers(s *state, p int) {
	m.revoked(s, p)
	m.renewed(s, p)
	m.rewritten(s, p)
}

func (m *machine) renewed(s *state, p int) {
	w := &s.procs[p].write
	switch {
	case !w.on:
		return
	case w.landed:
		m.step(s, "is answered that its renewal stands in the log", p, func(n *state, q *process) bool {
			w := q.write
			q.write = logPut{}
			if w.log == q.log {
				q.logVer = w.ver
			}
			// A success whose window has passed by now is answered as unknown.
			if w.waiting && (w.exp > 0 || m.mutant == answerPastSpan || m.mutant == windowFromAnswer) {
				if w.stale {
					n.bad = p3
				}
				if m.mutant == windowFromAnswer {
					w.exp = m.ttl
				}
				believe(n, q, w.grant, w.exp)
			}
			return true
		})
	case !m.canLand(s, w):
		m.step(s, "learns that its renewal will not stand in the log, and reads the log", p, func(n *state, q *process) bool {
			l := n.logs[q.log]
			if l.ver == 0 && m.mutant == recreateVanished {
				q.write.cond, q.write.ver = 0, fresh
				return true
			}
			q.write = logPut{}
			switch {
			case l.ver == 0 || l.closed && m.mutant != reopenClosed:
				m.nextLog(n, p)
				return true
			case l.mem[q.known.link.mem].revoked && m.mutant != reuseMember:
				q.known.link = link{}
			}
			q.logVer = l.ver
			return true
		})
	}
	if !m.lostLog || w.landed && !w.waiting {
		return
	}
	m.step(s, "gives up its renewal in the log, whose outcome is unknown", p, func(n *state, q *process) bool {
		w := q.write
		w.waiting = false
		if !w.landed {
			if n.lateLog.on || !m.canLand(n, &w) {
				return false
			}
			n.lateLog = w
		}
		q.write = logPut{}
		return true
	})
}

func (m *machine) rewritten(s *state, p int) {
	r := &s.procs[p].record
	switch {
	case !r.on:
		return
	case r.landed:
		m.step(s, "is answered that its write of the record stands", p, func(n *state, q *process) bool {
			m.stands(n, q)
			return true
		})
	case s.rec.ver != r.cond:
		m.step(s, "learns that its write of the record came too late, and reads the record", p, func(n *state, q *process) bool {
			r := q.record
			q.record = recPut{}
			mine := n.rec.owner == m.owner(p) && n.rec.grant == q.known.grant && !n.rec.rel
			foreign := n.rec.link.mem != 0 && n.rec.link.log != q.log
			if !mine || foreign && m.sameName || r.kind == acquire || r.kind == release {
				q.known = known{}
				return true
			}
			q.known = known{on: true, ver: n.rec.ver, grant: n.rec.grant}
			if !foreign {
				q.known.link = n.rec.link
			}
			return true
		})
	}
	if !m.lostRec {
		return
	}
	m.step(s, "gives up its write of the record, whose outcome is unknown", p, func(n *state, q *process) bool {
		r := q.record
		if !r.landed {
			if n.lateRec.on || n.rec.ver != r.cond {
				return false
			}
			n.lateRec = r
		}
		q.record = recPut{}
		switch {
		case r.kind == acquire || r.kind == release:
			q.known = known{}
		case m.mutant == renewAfterUnknownRecord:
			q.known.link = r.before
		}
		return true
	})
}

// stands takes the answer in that the record of a process is written.
func (m *machine) stands(n *state, q *process) {
	r := q.record
	q.record = recPut{}
	if r.kind == release {
		q.known = known{}
		if m.mutant == renewAfterRelease {
			q.known = known{on: true, ver: r.rec.ver, grant: r.rec.grant, link: r.before}
		}
		return
	}
	q.known = known{on: true, ver: r.rec.ver, grant: r.rec.grant}
	switch {
	case m.mutant == renewOldMember && r.kind != acquire:
		q.known.link = r.before
	case r.rec.link.mem != 0 && r.rec.link.log == q.log:
		q.known.link = r.rec.link
	}
	if m.mutant == revokeAfterTake && r.kind == acquire && r.before.mem != 0 {
		l := &n.logs[r.before.log]
		l.ver, l.mem[r.before.mem].revoked = fresh, true
	}
	believe(n, q, r.rec.grant, r.rec.exp)
}
