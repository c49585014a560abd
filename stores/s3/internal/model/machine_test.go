package model

// mutant is a rule that is broken.
type mutant uint8

const (
	correct mutant = iota
	noRevoke
	revokeAfterTake
	revokeOnlyWhatIsThere
	revokeUnconditionally
	conditionReadLate
	epochReadEarly
	logReadFirst
	recordProofOnly
	closedMeansOver
	closeLive
	closeLiveMeansOver
	noCover
	releaseBelievesLateRenewal
	renewAfterRelease
	renewAfterUnknownRecord
	renewOldMember
	reuseMember
	reuseMemberKeepsRevoked
	reopenClosed
	windowFromAnswer
	ownProofForgetsWrite
	recreateVanished
	renewPastSpan
	answerPastSpan
	waitForLog
	skipAbsent
	trustAbsent
	adoptWithoutRevoke
)

// config is who may do what. The arrays are by process.
type config struct {
	name     string
	procs    int
	ttl      uint8
	acquires [maxProcs]bool
	logs     [maxProcs]uint8 // how many logs it may have in its life
	renewRec bool            // renewals by the record
	forgets  bool
	releases bool
	unnamed  bool  // a record may also name no log, though its writer has one
	closes   bool  // a contender may close the log rather than revoke a member
	others   bool  // the log changes for the sake of other leases, too
	lostLog  bool  // requests for a log may be lost or late, and so may their answers
	lostRec  bool  // and those for the record
	ownProof bool  // a process takes its own lapsed lease again without a revocation
	deletes  uint8 // how often somebody may delete a log in which no renewal stands
	eager    bool  // a log is created before a record names it, and never again
	survives bool  // also one in which renewals stand: where a log is gone, they may stand for a span yet, and nobody creates it
	sameName bool  // processes 0 and 1 have one owner id
	waits    bool  // a write of the record waits for the answer of the write of the log that is under way
	reads    bool  // P5
	mutant   mutant
}

// label names a step in a trace.
type label struct {
	what string
	proc int
}

// adopts says whether a process may renew what another one of its name holds.
func (c config) adopts(p int) bool { return c.sameName && p < 2 }

// machine lists the steps that are possible in a state.
type machine struct {
	config
	emit func(label, *state)
	next state // where a step builds the state that it emits
}

// owner is the owner id of a process where it matters: where two have one. Else the grant says whose a lease is.
func (m *machine) owner(p int) uint8 {
	if !m.sameName {
		return 0
	}
	return uint8(max(p, 1))
}

func (m *machine) initial() state {
	s := state{rec: record{rel: true}}
	next := uint8(0)
	for p := range m.procs {
		s.procs[p].log = maxLogs
		if m.logs[p] > 0 {
			s.procs[p].log = next
			next += m.logs[p]
		}
	}
	for l := range next {
		if m.eager {
			s.logs[l].ver = 1
		}
	}
	for p := range m.procs {
		if m.eager && m.logs[p] > 0 {
			s.procs[p].logVer = 1
		}
	}
	return s
}

// nextLog is what a writer does whose log is closed or gone: it begins another, if it may.
func (m *machine) nextLog(s *state, p int) {
	q := &s.procs[p]
	end := uint8(0)
	for i := 0; i <= p; i++ {
		end += m.logs[i]
	}
	q.log, q.logVer, q.known.link = q.log+1, 0, link{}
	if q.log >= end {
		q.log = maxLogs
	} else if m.eager {
		q.logVer = 1
	}
}

// step emits the state after a change of a copy of s. do says whether there is one.
func (m *machine) step(s *state, what string, p int, do func(*state, *process) bool) {
	n := &m.next
	*n = *s
	if !do(n, &n.procs[max(p, 0)]) {
		return
	}
	m.norm(n)
	if n.bad == none {
		n.bad = m.judge(n)
	}
	m.emit(label{what, p}, n)
}

// steps emits every state that can come after s.
func (m *machine) steps(s *state) {
	m.step(s, "tick", -1, func(n *state, _ *process) bool { return n.tick() })
	for p := range m.procs {
		m.land(s, p)
		m.contend(s, p)
		m.answers(s, p)
		m.hold(s, p)
	}
	m.step(s, "a request that was given up lands on the log", -1, func(n *state, _ *process) bool { return m.landLog(n, &n.lateLog) })
	m.step(s, "a request that was given up lands on the record", -1, func(n *state, _ *process) bool { return m.landRec(n, &n.lateRec) })
	m.step(s, "a request that was given up never lands", -1, func(n *state, _ *process) bool {
		if !n.lateLog.on {
			return false
		}
		n.lateLog = logPut{}
		return true
	})
	m.step(s, "a request for the record that was given up never lands", -1, func(n *state, _ *process) bool {
		if !n.lateRec.on {
			return false
		}
		n.lateRec = recPut{}
		return true
	})
	m.surroundings(s)
	if m.reads {
		m.read(s)
	}
}

// surroundings are what others do to the logs: contenders for other leases close one, somebody deletes one.
func (m *machine) surroundings(s *state) {
	for l := range s.logs {
		over := s.logs[l].ver != 0
		for _, e := range s.logs[l].mem {
			over = over && e.exp == 0
		}
		live := m.mutant == closeLive || m.mutant == closeLiveMeansOver
		if m.others && m.closes && (over || live && s.logs[l].ver != 0) && !s.logs[l].closed {
			m.step(s, "a contender for another lease closes the log", -1, func(n *state, _ *process) bool {
				n.logs[l].closed, n.logs[l].ver = true, fresh
				return true
			})
		}
		if (over || m.survives) && s.logs[l].ver != 0 && s.deletes < m.deletes {
			m.step(s, "somebody deletes the log", -1, func(n *state, _ *process) bool {
				n.logs[l] = logObject{}
				n.deletes++
				return true
			})
		}
	}
}

// land lets the requests of a process arrive.
func (m *machine) land(s *state, p int) {
	m.step(s, "its renewal lands on the log", p, func(n *state, q *process) bool { return m.landLog(n, &q.write) })
	m.step(s, "its revocation lands on the log", p, func(n *state, q *process) bool { return m.landLog(n, &q.revoke) })
	m.step(s, "its write of the record lands", p, func(n *state, q *process) bool { return m.landRec(n, &q.record) })
}

func (m *machine) landLog(n *state, w *logPut) bool {
	if !m.canLand(n, w) {
		return false
	}
	l := &n.logs[w.log]
	l.ver, w.landed = w.ver, true
	e := &l.mem[w.mem]
	switch w.kind {
	case renew:
		if w.mem != 0 {
			e.exp = w.exp
			w.stale = n.rec.grant != w.grant
			if m.mutant == reuseMember {
				e.revoked = false
			}
		}
		if m.mutant == reopenClosed {
			l.closed = false
		}
	case revoke:
		e.revoked = true
		if m.mutant == revokeUnconditionally {
			e.exp = 0 // as it was in the version that was read
		}
	case closing:
		l.closed = true
	}
	n.note()
	return true
}

func (m *machine) landRec(n *state, r *recPut) bool {
	if !r.on || r.landed || n.rec.ver != r.cond {
		return false
	}
	if n.rec.grant != r.base || r.kind != acquire && n.rec.grant != r.rec.grant {
		n.bad = p2
	}
	n.rec, r.landed = r.rec, true
	n.note()
	return true
}

// judge says which property a state breaks: no two may believe at one time that they hold the lease, unless they are
// one owner at one epoch.
func (m *machine) judge(n *state) violation {
	for i := range m.procs {
		for j := range i {
			a, b := n.procs[i], n.procs[j]
			if a.belief > 0 && b.belief > 0 && (a.grant != b.grant || !m.sameName || m.owner(i) != m.owner(j)) {
				return p1
			}
		}
	}
	return none
}
