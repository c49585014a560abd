package model

import "slices"

// Bounds of the state's arrays. Names of versions, members and grants are given anew when nothing refers to them any more,
// so they bound what is alive at once, not how long a run may be.
const (
	maxProcs   = 3
	maxLogs    = 3
	maxMembers = 7
	maxEnds    = 5 // a set of 0..ttl, and one that is free
)

// link is what a record says of a log: which, and the member in it. Member 0: none.
type link struct{ log, mem uint8 }

// record is the object of the lease. ver 0: there is none. exp is how many ticks its span has left, counted from the
// sending of the request that wrote it; grant stands for the epoch (see grants in names_test.go).
type record struct {
	ver, owner, grant, exp uint8
	rel                    bool
	link                   link
}

// entry is a member in a log: what is left of its newest renewal, and whether somebody revoked it.
type entry struct {
	exp     uint8
	revoked bool
}

// logObject is a renewal log. ver 0: there is none.
type logObject struct {
	ver    uint8
	closed bool
	rest   uint8 // in what a contender read: how long the newest of the other members' renewals stands
	mem    [maxMembers + 1]entry
}

func (l logObject) dead(m uint8) bool { return l.closed || l.mem[m].revoked }

// kind is what a request does to its object.
type kind uint8

const (
	renew kind = iota
	forget
	release
	acquire
	revoke
	closing
)

// logPut is a request that replaces a log, from its sending until the sender knows what became of it or gave it up. If
// it was given up it can still land, at any later time.
type logPut struct {
	on        bool
	kind      kind
	log       uint8
	cond, ver uint8 // the version it replaces (0: there must be none), and its own
	mem       uint8
	exp       uint8 // of the renewal: ticks left, counted from the sending
	landed    bool
	waiting   bool  // somebody waits for the answer, and will believe it
	grant     uint8 // of the lease that the caller renews
	stale     bool  // it landed when the lease was somebody else's already
	adopt     bool  // of a revocation: to write the record for the same owner, not to take the lease
}

// recPut is a request that replaces the record.
type recPut struct {
	on     bool
	kind   kind
	cond   uint8
	base   uint8 // the grant in the version that it replaces
	rec    record
	landed bool
	before link // what the holder could renew before it was sent
}

// step of a contender's program.
type stepOf uint8

const (
	idle stepOf = iota
	haveRecord
	haveLog
	haveLogOnly // a mutant reads the log before the record
	revoking
)

// known is what a holder knows of its lease: the version of the record, and the member that it may renew.
type known struct {
	on         bool
	ver, grant uint8
	link       link
}

// process is a node: a contender, a holder and the writer of its logs in one.
type process struct {
	at      stepOf
	snap    record    // as it was read
	snapLog logObject // as it was read; the entry of snap.link only
	known   known
	belief  uint8 // ticks left of what it may believe: it acts as owner while this is above 0
	grant   uint8 // what it believes to hold
	log     uint8 // its current log; maxLogs: it has none any more
	logVer  uint8 // the newest version of it that it knows
	write   logPut
	revoke  logPut
	record  recPut
}

// ending is what a read of the lease says: whose, and until when.
type ending struct {
	grant, exp uint8
	rel        bool
}

// reader reads the record and then the log; ends are when the lease that the record shows was to end, plus 1, in the states
// that held since: a sorted set.
type reader struct {
	on   bool
	snap record
	ends [maxEnds]uint8
}

// state is everything. It has no padding and no pointers, so it can be a key.
type state struct {
	rec     record
	logs    [maxLogs]logObject
	procs   [maxProcs]process
	lateLog logPut // one request of each kind that its sender gave up
	lateRec recPut
	reader  reader
	deletes uint8
	bad     violation
}

// violation is a property that does not hold.
type violation uint8

const (
	none violation = iota
	p1
	p2
	p3
	p4
	p5
	p1alone // P1, within one process
)

// violations is a set of them.
type violations uint8

const every violations = 1<<p1 | 1<<p2 | 1<<p3 | 1<<p4 | 1<<p5 | 1<<p1alone

func (w violations) has(v violation) bool { return w>>v&1 == 1 }

func (v violation) String() string {
	return [...]string{"none", "P1", "P2", "P3", "P4", "P5", "P1 in one process"}[v]
}

// tick lets one unit of time pass, for all alike. It says whether that changed anything.
func (s *state) tick() bool {
	before := *s
	dec := func(x *uint8) {
		if *x > 0 {
			*x--
		}
	}
	log := func(l *logObject) {
		dec(&l.rest)
		for m := range l.mem {
			dec(&l.mem[m].exp)
		}
	}
	dec(&s.rec.exp)
	for l := range s.logs {
		log(&s.logs[l])
	}
	for i := range s.procs {
		p := &s.procs[i]
		dec(&p.snap.exp)
		log(&p.snapLog)
		dec(&p.belief)
		dec(&p.write.exp)
		dec(&p.record.rec.exp)
	}
	dec(&s.lateLog.exp)
	dec(&s.lateRec.rec.exp)
	dec(&s.reader.snap.exp)
	for i, e := range s.reader.ends {
		if e > 1 {
			s.reader.ends[i]--
			if i > 0 && s.reader.ends[i-1] == e-1 {
				s.reader.ends[i-1] = 0
			}
		}
	}
	slices.Sort(s.reader.ends[:])
	return *s != before
}
