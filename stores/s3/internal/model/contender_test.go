package model

// contend lists what a process can do that wants the lease: read the record, read the log that it names, revoke the
// member, replace the record. It may stop for any time between any two of them.
func (m *machine) contend(s *state, p int) {
	q := &s.procs[p]
	switch q.at {
	case idle:
		lostSight := m.sameName && !q.known.on
		if q.record.on || !m.acquires[p] && !m.adopts(p) || q.belief > 0 && !lostSight {
			return
		}
		if m.mutant == logReadFirst {
			m.step(s, "reads the log", p, func(n *state, q *process) bool {
				q.known, q.snapLog, q.at = known{}, n.logs[0], haveLogOnly
				return true
			})
			return
		}
		m.step(s, "reads the record", p, func(n *state, q *process) bool {
			q.known, q.snap, q.at = known{}, n.rec, haveRecord
			return true
		})
	case haveLogOnly:
		m.step(s, "reads the record", p, func(n *state, q *process) bool {
			q.snap, q.at = n.rec, haveLog
			if q.snap.rel || q.snap.link.mem == 0 || q.snap.link.log != 0 {
				q.snapLog, q.at = logObject{}, haveRecord
			}
			return true
		})
	case haveRecord:
		switch {
		case q.snap.rel:
			m.take(s, p, q.snap)
		case q.snap.link.mem != 0:
			m.step(s, "reads the log", p, func(n *state, q *process) bool {
				l, e := n.logs[q.snap.link.log], q.snap.link.mem
				q.snapLog, q.at = logObject{ver: l.ver, closed: l.closed}, haveLog
				q.snapLog.mem[e] = l.mem[e]
				if l.ver == 0 && m.survives && m.mutant != trustAbsent {
					q.snapLog.mem[e].exp = m.ttl
				}
				for i, other := range l.mem {
					if m.closes && uint8(i) != e {
						q.snapLog.rest = max(q.snapLog.rest, other.exp)
					}
				}
				return true
			})
		case q.snap.exp == 0:
			m.take(s, p, q.snap)
		default:
			m.adopt(s, p)
		}
	case haveLog:
		if m.over(q) {
			m.revokeThenTake(s, p)
		} else {
			m.adopt(s, p)
		}
	}
}

// over says whether what a contender read is proven to be over. The proofs of the package s3 hold at the earliest when
// the span has passed since the sending; the model lets them hold at any time from then on.
func (m *machine) over(q *process) bool {
	log := q.snapLog.mem[q.snap.link.mem].exp == 0
	switch m.mutant {
	case recordProofOnly:
		log = true
	case closedMeansOver, closeLiveMeansOver:
		log = log || q.snapLog.closed
	}
	return q.snap.exp == 0 && log
}

func (m *machine) revokeThenTake(s *state, p int) {
	q := &s.procs[p]
	mem := q.snap.link.mem
	skip := q.snapLog.dead(mem) || m.survives && q.snapLog.ver == 0
	switch m.mutant {
	case skipAbsent:
		skip = skip || q.snapLog.ver == 0
	case waitForLog:
		if q.snapLog.ver == 0 {
			return
		}
	case noRevoke, revokeAfterTake:
		skip = true
	case revokeOnlyWhatIsThere:
		skip = skip || q.snapLog.ver == 0 || q.snapLog.mem[mem] == entry{}
	}
	if skip {
		m.take(s, p, q.snap)
		return
	}
	m.sendRevocation(s, p, revoke, false)
	if m.closes && (q.snapLog.rest == 0 || m.mutant == closeLive || m.mutant == closeLiveMeansOver) {
		m.sendRevocation(s, p, closing, false)
	}
}

func (m *machine) sendRevocation(s *state, p int, k kind, adopt bool) {
	what := "sends the revocation of the member"
	if k == closing {
		what = "sends the closing of the log"
	}
	m.step(s, what, p, func(n *state, q *process) bool {
		l := q.snap.link
		q.revoke = logPut{on: true, kind: k, log: l.log, cond: q.snapLog.ver, ver: fresh, mem: l.mem, adopt: adopt}
		q.snapLog, q.at = logObject{}, revoking
		return true
	})
}

// revoked lists what a contender can learn of its revocation; when it took effect, it goes on at once.
func (m *machine) revoked(s *state, p int) {
	q := &s.procs[p]
	w := &q.revoke
	switch {
	case !w.on:
	case w.landed && w.adopt:
		m.sendAdoption(s, p)
	case w.landed:
		m.take(s, p, q.snap)
	case !m.canLand(s, w):
		m.step(s, "learns that its revocation came too late", p, func(_ *state, q *process) bool {
			q.revoke, q.snap, q.at = logPut{}, record{}, idle
			return true
		})
	}
	if w.on && m.lostLog {
		m.step(s, "gives up its revocation, whose outcome is unknown", p, func(n *state, q *process) bool {
			if !q.revoke.landed && n.lateLog.on {
				return false
			}
			if !q.revoke.landed {
				n.lateLog = q.revoke
			}
			q.revoke, q.snap, q.at = logPut{}, record{}, idle
			return true
		})
	}
}

// take sends the write of the record that takes the lease, on the condition of version snap.
func (m *machine) take(s *state, p int, snap record) {
	if s.procs[p].belief > 0 || !m.acquires[p] {
		return
	}
	for _, l := range m.links(s, p) {
		m.step(s, "sends the write of the record that takes the lease", p, func(n *state, q *process) bool {
			switch m.mutant {
			case conditionReadLate:
				snap.ver, snap.grant = n.rec.ver, n.rec.grant
			case epochReadEarly:
				snap.ver = n.rec.ver
			}
			q.record = recPut{on: true, kind: acquire, cond: snap.ver, base: snap.grant, before: m.before(snap.link),
				rec: record{ver: fresh, owner: m.owner(p), grant: fresh, exp: m.ttl, link: l}}
			q.at, q.snap, q.snapLog, q.revoke, q.known = idle, record{}, logObject{}, logPut{}, known{}
			return true
		})
	}
}

// before is what a write of the record remembers of the link before it; only mutants do.
func (m *machine) before(l link) link {
	switch m.mutant {
	case renewAfterRelease, renewAfterUnknownRecord, renewOldMember, revokeAfterTake:
		return l
	}
	return link{}
}

// links are what a process may name in a record that it writes: a new member of its log, or none.
func (m *machine) links(s *state, p int) []link {
	log := s.procs[p].log
	if log >= maxLogs {
		return []link{{}}
	}
	out := []link{{log, s.freshMember(log)}}
	if m.mutant == reuseMember || m.mutant == reuseMemberKeepsRevoked {
		out[0].mem = 1
	}
	if m.unnamed {
		out = append(out, link{})
	}
	return out
}

// adopt lets a process renew, by the record, what another one with its owner id holds. It revokes the member first: the
// other one's renewals in the log would stand for a record that is no more.
func (m *machine) adopt(s *state, p int) {
	q := &s.procs[p]
	if !m.sameName || q.snap.owner != m.owner(p) || q.belief > 0 && q.grant != q.snap.grant {
		return
	}
	if q.at == haveLog && !q.snapLog.dead(q.snap.link.mem) && m.mutant != adoptWithoutRevoke {
		m.sendRevocation(s, p, revoke, true)
		return
	}
	m.sendAdoption(s, p)
}

func (m *machine) sendAdoption(s *state, p int) {
	for _, l := range m.links(s, p) {
		m.step(s, "sends a renewal by the record that another process of its name wrote", p, func(n *state, q *process) bool {
			q.record = recPut{on: true, kind: renew, cond: q.snap.ver, base: q.snap.grant,
				rec: record{ver: fresh, owner: m.owner(p), grant: q.snap.grant, exp: m.ttl, link: l}}
			q.known = known{on: true, ver: q.snap.ver, grant: q.snap.grant}
			q.at, q.snap, q.snapLog, q.revoke = idle, record{}, logObject{}, logPut{}
			return true
		})
	}
}
