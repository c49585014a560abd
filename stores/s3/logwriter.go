package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// keepOver is how long a log shows the renewals of a lease that is over, if nobody takes it. After that the lease reads with
// the end that its record has, which is older.
const keepOver = time.Minute

// logWriter keeps one renewal log of this process. What is asked of it while a replacement is in flight waits for the
// next one: there is never more than one in flight.
type logWriter struct {
	leases  *Leases
	lane    requester // its own, of one request
	logName string

	mu      sync.Mutex
	asks    []*ask
	running bool
	members map[int]*membership
	coming  int                  // of which the records are being written
	last    int                  // the newest member number
	dropped memberSet            // members to be left out of the next version
	flying  map[int]bool         // members that the replacement in flight renews
	landed  chan struct{}        // closed when it is known, or given up, what became of it
	over    bool                 // nothing is renewed here any more
	version uint64               // the newest known
	sent    map[uint64]time.Time // when this process sent a version that still stands

	// What follows belongs to run.
	log        *renewalLog // the newest known version
	etag       string
	unsure     bool     // another may be newer
	unresolved []flight // replacements whose answers were lost
}

// flight is a replacement that was sent.
type flight struct {
	nonce string
	cond  string // the version that it replaces
	sent  time.Time
}

// ask is a renewal, or with revoke the revocation, of one member.
type ask struct {
	ctx    context.Context
	of     *membership    // of a renewal
	revoke *revocation    // of a revocation
	answer chan askAnswer // holds one
}

// revocation names a member whose newest renewal was seen to be over.
type revocation struct {
	member int
	in     uint64
}

type askAnswer struct {
	lease messages.Lease
	// byRecord: the log does not renew it (any more); for a revocation: look again.
	byRecord bool
	err      error
}

func (w *logWriter) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

func (w *logWriter) reserve() (member int, since uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || len(w.members)+w.coming >= maxMembers {
		return 0, 0, false
	}
	w.last++
	w.coming++
	return w.last, w.version, true
}

// came ends what reserve began: the member was added, or will never be.
func (w *logWriter) came() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.coming--
}

func (w *logWriter) add(m *membership) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members[m.member] = m
}

// drop takes a member out, and lets the next version leave it out.
func (w *logWriter) drop(m *membership) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.left = true
	delete(w.members, m.member)
	w.dropped = w.dropped.union(membersOf(m.member))
}

// leave ends the renewals of a member, and waits for one in flight.
func (w *logWriter) leave(ctx context.Context, m *membership) error {
	w.mu.Lock()
	m.left = true
	landed := w.landed
	if !w.flying[m.member] {
		landed = nil
	}
	w.mu.Unlock()
	if landed == nil {
		return nil
	}
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.leases.ctx.Done():
		return w.leases.ctx.Err()
	}
}

// sentOf returns when this process sent a version, or zero.
func (w *logWriter) sentOf(version uint64) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent[version]
}

// ask hands asks to the writer. Each is answered.
func (w *logWriter) ask(asks ...*ask) {
	w.mu.Lock()
	w.asks = append(w.asks, asks...)
	start := !w.running
	w.running = true
	w.mu.Unlock()
	if start && !w.leases.background(w.run) {
		for asks := w.take(); len(asks) > 0; asks = w.take() {
			w.answer(asks, askAnswer{err: w.leases.failure(w.leases.ctx, errors.New("closed"), "", "not sent")})
		}
	}
}

// take returns what is asked now; nothing ends the run.
func (w *logWriter) take() []*ask {
	w.mu.Lock()
	defer w.mu.Unlock()
	asks := w.asks
	w.asks = nil
	w.running = len(asks) > 0
	return asks
}

func (w *logWriter) run() {
	for asks := w.take(); len(asks) > 0; asks = w.take() {
		w.do(asks)
	}
}

func (w *logWriter) answer(asks []*ask, with askAnswer) {
	for _, a := range asks {
		a.answer <- with
	}
}

// do answers asks with as few replacements as it takes: one, unless others revoke members meanwhile.
func (w *logWriter) do(asks []*ask) {
	ctx, stop := untilAllGaveUp(w.leases.ctx, asks)
	defer stop()
	via := w.via(asks)
	for range maxRounds {
		if w.unsure {
			if err := w.look(ctx, via); err != nil {
				w.answer(asks, askAnswer{err: err})
				return
			}
		}
		now := w.leases.cfg.Now()
		next := w.log.next(w.leases.clock.read(now).UnixMilli(), rand.Text())
		var over []*membership
		asks, over = w.fill(next, asks, now)
		w.leases.members.forget(over)
		if len(asks) == 0 {
			w.land()
			return
		}
		took, err := w.replace(ctx, via, next)
		if took {
			w.grant(asks)
		}
		w.land()
		if took {
			return
		}
		if err != nil {
			w.answer(asks, askAnswer{err: err})
			return
		}
	}
	w.answer(asks, askAnswer{err: &messages.Error{Code: messages.CodeUnavailable, Message: "others were faster a hundred times"}})
}

// via returns the lane, with no more patience than the shortest lease has that is to be renewed.
func (w *logWriter) via(asks []*ask) requester {
	least := messages.MaxTTL
	for _, a := range asks {
		if a.of != nil {
			least = min(least, a.of.ttl)
		}
	}
	return w.lane.inTimeFor(least)
}

// fill puts into a version what is asked, answers what cannot be, and returns the rest, which is in flight from now on. It
// also returns the members that have long been over.
func (w *logWriter) fill(next *renewalLog, asks []*ask, now time.Time) (left []*ask, over []*membership) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying, w.landed = map[int]bool{}, make(chan struct{})
	var revoked []int
	renewed := map[time.Duration][]int{}
	for _, a := range asks { // first, because nobody is renewed and revoked in one
		if a.revoke == nil {
			continue
		}
		newest, gone := w.log.newest(a.revoke.member)
		if a.ctx.Err() == nil && !gone && !w.over && newest.In == a.revoke.in {
			revoked = append(revoked, a.revoke.member)
			left = append(left, a)
		} else {
			a.answer <- askAnswer{byRecord: !gone || newest.In != a.revoke.in}
		}
	}
	for _, a := range asks {
		m := a.of
		if m == nil {
			continue
		}
		_, gone := w.log.newest(m.member)
		switch {
		case a.ctx.Err() != nil:
			a.answer <- askAnswer{err: w.leases.failure(a.ctx, a.ctx.Err(), "", "not sent")}
		case gone || m.left || w.over || now.Sub(m.sent) >= m.ttl || slices.Contains(revoked, m.member):
			a.answer <- askAnswer{byRecord: true}
		default:
			renewed[m.ttl] = append(renewed[m.ttl], m.member)
			w.flying[m.member] = true
			left = append(left, a)
		}
	}
	over = w.prune(next, now)
	for ttl, members := range renewed {
		next.renew(ttl, membersOf(members...))
	}
	if len(revoked) > 0 {
		next.revoke(membersOf(revoked...))
	}
	return left, over
}

// prune leaves out of a version whatever nobody can need, and returns the members that have long been over.
func (w *logWriter) prune(next *renewalLog, now time.Time) (over []*membership) {
	for _, m := range w.members {
		if now.Sub(m.sent) > m.ttl+keepOver {
			over = append(over, m)
			m.left = true
			delete(w.members, m.member)
			w.dropped = w.dropped.union(membersOf(m.member))
		}
	}
	next.Standing = without(next.Standing, w.dropped)
	var revoked []group
	for _, g := range next.Revoked {
		// A revoked renewal stands until its span has passed. That a member without one is revoked is needed by this
		// writer itself, which may learn late that the record names the member.
		needed := next.made().AtMS-g.AtMS < messages.MaxTTL.Milliseconds()
		if g.In > 0 {
			sent, ok := w.sent[g.In]
			needed = !ok || now.Sub(sent) < g.ttl()
		}
		if needed {
			revoked = append(revoked, g)
		}
	}
	next.Revoked = revoked
	return over
}
