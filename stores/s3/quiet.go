package s3

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// complete adds to a version of a record, which was read before, what stands in the renewal log that it names. Where the log
// may have left the member out, because the record has gone on, that is looked at again.
func (l *Leases) complete(ctx context.Context, key messages.Key, s sighting) (sighting, error) {
	for range maxRounds {
		if !s.renewable() {
			return s, nil
		}
		v, err := l.loadLog(ctx, s.rec.last().Log)
		if err != nil {
			return s, err
		}
		s = l.completeWith(key, s, v)
		if !s.leftOut() {
			return s, nil
		}
		again, err := l.loadRecord(ctx, key)
		if err != nil {
			return s, err
		}
		if again.etag == s.etag {
			return s, nil // it was the newest when the log was read
		}
		s = again
	}
	return s, &messages.Error{Code: messages.CodeUnavailable, Key: key.String(), Message: "others were faster a hundred times"}
}

// leftOut says whether the log may have shown a renewal of the member before, and left it out since. A log that was known to
// be closed before the record was read has not: then the record would have gone on before.
func (s sighting) leftOut() bool {
	return s.renewal.In == 0 && !s.renewal.log.known && s.renewal.log.version() > s.rec.last().Since
}

// renewable says whether a renewal of the lease may stand in a renewal log.
func (s sighting) renewable() bool { return s.rec != nil && s.rec.SpanMS > 0 && s.rec.last().Log != "" }

func (l *Leases) completeWith(key messages.Key, s sighting, v logView) sighting {
	e := s.rec.last()
	r := renewal{log: v, gone: v.log == nil}
	r.group, r.revoked = v.log.newest(e.Member)
	if r.gone {
		// Logs are there before records name them, and are never created anew: this one was deleted, and nothing is renewed
		// in it any more. What was renewed before stands for a span from the first answer that showed this, at most.
		r.proof = proof{span: time.Duration(e.TTLMS) * time.Millisecond, seen: l.looks.goneSince(e.Log, v.received)}
	}
	if r.In > 0 {
		r.proof = l.proofOf(e.Log, v, r.group)
		if seen := l.known.noteRenewal(key, e.Nonce, r.In, v.received); seen.Before(r.seen) {
			r.seen = seen
		}
	}
	s.renewal = r
	return s
}

// proofOf returns what proves the end of the renewals of a group, which a version of a log shows.
func (l *Leases) proofOf(name string, v logView, g group) proof {
	p := proof{span: g.ttl(), seen: v.received, received: v.received, age: v.age, aged: v.aged}
	if seen, ok := l.looks.seen(name, g.In); ok && seen.Before(p.seen) {
		p.seen = seen
	}
	if w := l.members.own(name); w != nil {
		p.sent = w.sentOf(g.In)
	}
	return p
}

// quiet sees to it that the lease is renewed no more in the log that the newest entry of its record names: the log's writer
// has left it (m), or it is revoked, or the log is gone. It returns false if the lease must be looked at anew. See rules 2 and 3 of
// docs/decisions/0031-renewal-logs-in-a-bucket.md.
func (l *Leases) quiet(ctx context.Context, s sighting, m *membership) (bool, error) {
	if !s.renewable() || s.renewal.revoked || s.renewal.gone {
		return true, nil
	}
	e := s.rec.last()
	if m != nil && m.nonce == e.Nonce {
		return true, nil
	}
	w := l.members.own(e.Log)
	if w == nil {
		return l.revoke(ctx, e, s.renewal.log)
	}
	a := &ask{ctx: ctx, revoke: &revocation{member: e.Member, in: s.renewal.In}, answer: make(chan askAnswer, 1)}
	w.ask(a)
	got, err := a.wait(l)
	return !got.byRecord, err
}

// revoke replaces another process's log by one in which a member is revoked. All other members that are over are revoked with
// it; if none is left, the log is closed: its process is most likely dead, and the next of its leases is taken without
// a replacement. It returns false if the log has changed, or may have.
func (l *Leases) revoke(ctx context.Context, e entry, v logView) (bool, error) {
	leave, err := l.revokes.take(ctx, e.Log)
	if err != nil {
		return false, l.failure(ctx, err, "", "another revocation is under way")
	}
	defer leave()
	if l.looks.since(e.Log, v) {
		return false, nil
	}
	now := l.cfg.Now()
	next := v.log.next(l.clock.read(now).UnixMilli(), rand.Text())
	over, all := membersOf(e.Member), true
	for _, g := range next.Standing {
		if l.proofOf(e.Log, v, g).left(now, l.skew) <= 0 {
			over = over.union(g.Members)
		} else {
			all = false
		}
	}
	if all {
		next.Closed, next.made().Closed = true, true
	} else {
		next.revoke(over)
	}
	via := l.inTimeFor(time.Duration(e.TTLMS) * time.Millisecond)
	if err := via.makeLogRoom(ctx, next); err != nil {
		return false, err
	}
	etag, _, out, err := via.putLog(ctx, next, v.etag)
	switch out {
	case done:
		l.looks.note(e.Log, logView{log: next, etag: etag, received: l.cfg.Now()})
		return true, nil
	case precondition:
		return false, nil
	}
	if now, lookErr := l.loadLog(ctx, e.Log); lookErr == nil && now.version() > v.version() {
		return false, nil // by this revocation or by another: whoever looks anew sees which
	}
	return false, l.failure(ctx, err, "", "the renewal log may or may not have been written")
}
