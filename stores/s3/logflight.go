package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/leasehold/leasehold/messages"
)

// untilAllGaveUp returns a context that ends with a bucket's, and when nobody waits for an answer any more.
func untilAllGaveUp(bucket context.Context, asks []*ask) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(bucket)
	waiting := make(chan struct{}, len(asks))
	var stops []func() bool
	for _, a := range asks {
		stops = append(stops, context.AfterFunc(a.ctx, func() {
			if waiting <- struct{}{}; len(waiting) == cap(waiting) {
				cancel()
			}
		}))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// create writes the first version.
func (w *logWriter) create(ctx context.Context) bool {
	l := w.leases
	log := newLog(w.logName, l.clock.read(l.cfg.Now()).UnixMilli(), rand.Text())
	etag, _, out, _ := w.lane.putLog(ctx, log, "")
	if out == unclear {
		if v, err := l.fetchLog(ctx, w.lane, w.logName); err == nil && v.log != nil {
			etag, out = v.etag, done // the name is this process's own
		}
	}
	if out != done {
		return false
	}
	w.log, w.etag, w.version = log, etag, log.Version
	return true
}

// look reads the newest version, and learns from it what became of replacements whose answers were lost, and who was revoked.
func (w *logWriter) look(ctx context.Context, via requester) error {
	v, err := w.leases.fetchLog(ctx, via, w.logName)
	if messages.CodeOf(err) == messages.CodeCorrupt || err == nil && v.log == nil {
		// Whatever it was, it can be relied on no more. The records can.
		w.mu.Lock()
		defer w.mu.Unlock()
		w.over, w.unsure = true, false
		return nil
	}
	if err != nil {
		return err
	}
	w.unsure = false
	w.mu.Lock()
	defer w.mu.Unlock()
	var still []flight
	for _, f := range w.unresolved {
		if version, ok := v.log.wrote(f.nonce); ok {
			w.sent[version] = f.sent
		} else if f.cond == v.etag {
			still = append(still, f)
		}
	}
	w.unresolved = still
	w.took(v.log, v.etag)
	return nil
}

// took makes a version the newest known one. It is called with the lock held.
func (w *logWriter) took(log *renewalLog, etag string) {
	w.log, w.etag, w.version, w.over = log, etag, log.Version, w.over || log.Closed
	stands := map[uint64]time.Time{}
	for _, groups := range [][]group{log.Standing, log.Revoked} {
		for _, g := range groups {
			if sent, ok := w.sent[g.In]; ok {
				stands[g.In] = sent
			}
		}
	}
	w.sent = stands
	var dropped memberSet
	for _, g := range log.Standing {
		dropped = dropped.union(g.Members.minus(g.Members.minus(w.dropped)))
	}
	w.dropped = dropped
	for _, m := range w.members {
		newest, gone := log.newest(m.member)
		m.left = m.left || gone
		if newest.In > m.newest.In {
			m.newest, m.endMS = newest, max(m.endMS, newest.endMS())
			if sent, ok := stands[newest.In]; ok {
				m.sent = sent
			}
		}
	}
}

// replace sends the next version until it is known what became of it. It returns false if it had no effect; the error says
// that this, or who came first, is not known.
func (w *logWriter) replace(ctx context.Context, via requester, next *renewalLog) (bool, error) {
	l := w.leases
	if err := via.makeLogRoom(ctx, next); err != nil {
		return false, err
	}
	etag, sent, out, err := via.putLog(ctx, next, w.etag)
	f := flight{nonce: next.made().Nonce, cond: w.etag, sent: sent}
	switch out {
	case done:
		w.mu.Lock()
		w.unresolved = nil // they replace older versions than this one
		w.sent[next.Version] = sent
		w.took(next, etag)
		w.mu.Unlock()
		l.followClock(kindRenewals, w.logName, etag, sent, l.cfg.Now())
		return true, nil
	case precondition:
		w.unsure = true
		return false, nil
	case refused:
		return false, l.failure(ctx, err, "", "the renewal log cannot be written")
	}
	w.unsure = true
	w.unresolved = append(w.unresolved, f)
	unknown := l.failure(ctx, err, "", "the renewals may or may not have been written")
	if w.look(ctx, via) != nil {
		w.unsure = true
		return false, unknown
	}
	if _, ok := w.log.wrote(f.nonce); ok {
		return true, nil
	}
	if w.etag == f.cond && !w.ended() {
		return false, unknown
	}
	return false, nil
}

// grant answers asks that the newest version holds.
func (w *logWriter) grant(asks []*ask) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range asks {
		if a.revoke != nil {
			a.answer <- askAnswer{}
			continue
		}
		m := a.of
		a.answer <- askAnswer{lease: messages.Lease{Key: m.key, Owner: m.owner, Epoch: m.epoch, TTL: m.ttl, End: time.UnixMilli(m.endMS).UTC(), Floor: m.floor}}
	}
}

// land lets those go on who wait for what was in flight.
func (w *logWriter) land() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.landed != nil {
		close(w.landed)
		w.landed, w.flying = nil, nil
	}
}

// putLog sends a version of a log that replaces another ("": that is the first) until it has an answer that says
// something: done, precondition or refused; anything else is unclear. All tries are the same bytes with the same condition.
func (r requester) putLog(ctx context.Context, next *renewalLog, cond string) (etag string, sent time.Time, out outcome, err error) {
	data, err := next.encode()
	if err != nil {
		return "", sent, refused, err
	}
	in := r.document(kindRenewals, next.Name, data, cond)
	out = refused
	for n := 0; ; n++ {
		var answer *awss3.PutObjectOutput
		err = r.once(ctx, int64(len(data)), func(ctx context.Context) (err error) {
			if sent.IsZero() {
				sent = r.cfg.Now()
			}
			in.Body = bytes.NewReader(data)
			answer, err = r.client.PutObject(ctx, in)
			return err
		})
		switch o := outcomeOf(err); o {
		case done:
			return aws.ToString(answer.ETag), sent, done, nil
		case precondition, absent:
			if out == unclear {
				return "", sent, unclear, err // it may have been an earlier try that came first
			}
			return "", sent, precondition, err
		case unclear:
			out = unclear
		case conflict:
		default:
			return "", sent, out, err
		}
		if ctx.Err() != nil || r.ctx.Err() != nil || !r.again(ctx, n) {
			if sent.IsZero() {
				return "", sent, refused, err // nothing left this process
			}
			return "", sent, unclear, err
		}
	}
}
