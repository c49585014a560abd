package model

// hold lists what the holder of a lease can do, as long as its span has not passed on its own clock.
func (m *machine) hold(s *state, p int) {
	q := &s.procs[p]
	if m.others && q.log < maxLogs && !q.write.on {
		m.step(s, "sends a renewal of another lease", p, func(n *state, q *process) bool {
			q.write = logPut{on: true, kind: renew, log: q.log, cond: q.logVer, ver: fresh}
			return true
		})
	}
	if !q.known.on || q.at != idle {
		return
	}
	if m.ownProof && q.belief == 0 && !q.record.on {
		m.takeOwn(s, p)
	}
	past := m.mutant == renewPastSpan || m.mutant == renewAfterRelease
	busy := q.record.on && m.mutant != renewOldMember
	if !busy && (q.belief > 0 || past) {
		m.renewInLog(s, p)
	}
	if q.record.on || q.belief == 0 || m.waits && q.write.on {
		return
	}
	if m.renewRec {
		m.rewrite(s, p, renew, "sends a renewal by the record")
	}
	if m.forgets {
		m.rewrite(s, p, forget, "sends a forget, whose span is what is left")
	}
	if m.releases {
		m.rewrite(s, p, release, "sends a release")
	}
}

func (m *machine) renewInLog(s *state, p int) {
	q := &s.procs[p]
	l := q.known.link
	if q.write.on || l.mem == 0 || l.log != q.log {
		return
	}
	if o := s.logs[q.log]; o.ver == q.logVer && o.dead(l.mem) && m.mutant != reuseMember && m.mutant != reopenClosed {
		return // it knows that version, and so that the member is revoked
	}
	m.step(s, "sends a renewal in the log", p, func(n *state, q *process) bool {
		q.write = logPut{on: true, kind: renew, log: q.log, cond: q.logVer, ver: fresh,
			mem: l.mem, exp: m.ttl, waiting: true, grant: q.known.grant}
		return true
	})
}

// rewrite sends the record of the own lease again. Where a write of the log is on its way, the new span covers it. That
// a holder may wait for the answer instead is the same as doing this later.
func (m *machine) rewrite(s *state, p int, k kind, what string) {
	links := []link{{}}
	if k != release {
		links = m.links(s, p)
	}
	for _, l := range links {
		m.step(s, what, p, func(n *state, q *process) bool {
			rec := record{ver: fresh, owner: m.owner(p), grant: q.known.grant, link: l}
			switch k {
			case renew:
				rec.exp = m.ttl
			case forget:
				rec.exp = q.belief
				if q.write.on && m.mutant != noCover {
					rec.exp = max(rec.exp, q.write.exp)
				}
			case release:
				rec.rel = true
				q.belief = 0
				q.write.waiting = q.write.waiting && m.mutant == releaseBelievesLateRenewal
			}
			q.record = recPut{on: true, kind: k, cond: q.known.ver, base: q.known.grant, rec: rec, before: m.before(q.known.link)}
			if m.mutant != renewOldMember && m.mutant != renewAfterRelease {
				q.known.link = link{}
			}
			return true
		})
	}
}

// takeOwn is an acquire by the proof "own": nobody has to be told, since only this process renews the member, and it
// never will again. What it sent to the log counts as if it had landed, and nobody is told any more that it did.
func (m *machine) takeOwn(s *state, p int) {
	q := &s.procs[p]
	if s.rec.ver == q.known.ver && s.rec.exp > 0 {
		return // a version whose sending it does not remember
	}
	if q.write.on && q.write.exp > 0 && m.mutant != ownProofForgetsWrite {
		return
	}
	c := *s
	if m.mutant != ownProofForgetsWrite {
		c.procs[p].write.waiting = false
	}
	m.take(&c, p, record{ver: q.known.ver, grant: q.known.grant, link: q.known.link})
}

// believe notes that a renewal or an acquire was answered: its window counts from the sending.
func believe(n *state, q *process, grant, exp uint8) {
	if exp == 0 {
		return
	}
	if q.belief > 0 && q.grant != grant {
		n.bad = p1alone
	}
	q.grant, q.belief = grant, max(q.belief, exp)
}
