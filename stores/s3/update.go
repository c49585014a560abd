package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/leasehold/leasehold/messages"
)

// change is what an operation wants to write: the entry (its number and nonce are filled in), when, and the
// span of the record.
type change struct {
	entry entry
	at    int64
	span  time.Duration
}

// claim is who says to hold a lease: an owner, at an epoch.
type claim struct {
	owner string
	epoch uint64
}

// waitError is what an operation answers that wants to look again after a while; if the caller has no
// time for that, it is answer.
type waitError struct {
	time.Duration
	answer error
}

func (e *waitError) Error() string { return e.answer.Error() }

// maxRounds bounds how often an operation begins anew because others were faster.
const maxRounds = 100

// update decides on the newest version of a record, and of what stands in its renewal log, and writes what was decided,
// on the condition that the version is still the newest; else it decides anew. For who says to be the holder, by, a version
// that this process wrote itself is believed to be the newest until the write shows otherwise; but nothing is ever REFUSED on
// such a belief.
func (l *Leases) update(ctx context.Context, key messages.Key, by *claim, decide func(sighting, time.Time) (change, error)) (messages.Lease, error) {
	for round := range maxRounds {
		if err := l.begin(ctx); err != nil {
			return messages.Lease{}, err
		}
		written, err := l.attempt(ctx, key, by, by != nil && round == 0, decide)
		var wait *waitError
		switch {
		case errors.As(err, &wait):
			if l.sleep(ctx, wait.Duration) != nil {
				return messages.Lease{}, wait.answer
			}
		case err != nil:
			return messages.Lease{}, err
		case written != nil:
			return written.lease(key), nil
		}
	}
	return messages.Lease{}, &messages.Error{Code: messages.CodeUnavailable, Key: key.String(), Message: "others were faster a hundred times"}
}

// attempt is one round of update. It returns nil if another has to follow.
func (l *Leases) attempt(ctx context.Context, key messages.Key, by *claim, believe bool, decide func(sighting, time.Time) (change, error)) (*entry, error) {
	done, err := l.turns.take(ctx, key)
	if err != nil {
		return nil, l.failure(ctx, err, "", "another operation on the lease is under way")
	}
	defer done()
	var left *membership
	if by != nil {
		if left, err = l.members.leave(ctx, key, *by); err != nil {
			return nil, err
		}
	}
	s, believed := sighting{}, false
	if believe {
		s, believed = l.believed(key, left)
	}
	if !believed {
		if s, err = l.load(ctx, key); err != nil {
			return nil, err
		}
	}
	c, err := decide(s, l.cfg.Now())
	if err != nil && believed {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if quiet, err := l.quiet(ctx, s, left); err != nil || !quiet {
		return nil, err
	}
	return l.write(ctx, key, s, c)
}

// believed returns what this process wrote last of a lease that it holds, and no other has replaced as far as it knows.
func (l *Leases) believed(key messages.Key, left *membership) (sighting, bool) {
	s, ok := l.known.own(key)
	if !ok || !s.renewable() {
		return s, ok
	}
	if left == nil || left.nonce != s.rec.last().Nonce {
		return s, false
	}
	s.renewal = left.renewal()
	return s, true
}

// write replaces version s by one with a change. It returns nil if another version came first.
func (l *Leases) write(ctx context.Context, key messages.Key, s sighting, c change) (*entry, error) {
	next := record{V: version, Key: key.String(), SpanMS: (c.span + time.Millisecond - 1).Milliseconds()}
	e := c.entry
	e.AtMS, e.Nonce, e.Seq = c.at, rand.Text(), 1
	var log *logWriter
	if e.Op == messages.OpAcquire || e.Op == messages.OpRenew {
		if log, e.Member, e.Since = l.members.reserve(ctx); log != nil {
			defer log.came()
			e.Log = log.logName
		}
	}
	var before *entry
	if s.rec == nil {
		// The first acquire of a key, or the one after somebody deleted its record.
		if names, err := l.overflow(ctx, key, 1); err != nil || len(names) > 0 {
			if err == nil {
				err = errVanished(key)
			}
			return nil, err
		}
	} else {
		last := s.rec.last()
		before, e.Seq = &last, last.Seq+1
		trail, err := l.makeRoom(ctx, key, s.rec.Trail)
		if err != nil {
			return nil, err
		}
		next.Trail = append(next.Trail, trail...)
	}
	if err := e.follows(before); err != nil {
		return nil, &messages.Error{Code: messages.CodeInternal, Key: key.String(), Message: "a change that breaks the rules of leases was not written", Err: err}
	}
	next.Trail = append(next.Trail, e)
	data, err := next.encode()
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeInternal, Key: key.String(), Message: "a record cannot be encoded", Err: err}
	}
	return l.replace(ctx, key, s, next, data, log)
}

// replace sends the new version until it is known what became of it. All tries are the same bytes with
// the same condition, so together they take effect at most once. log is that of the member which it names.
func (l *Leases) replace(ctx context.Context, key messages.Key, s sighting, next record, data []byte, log *logWriter) (*entry, error) {
	in := l.document(kindLeases, key.String(), data, s.etag)
	var sent time.Time // of the first try: no later one can have taken effect before it
	mayStand := false
	for n := 0; ; n++ {
		var out *awss3.PutObjectOutput
		err := l.once(ctx, int64(len(data)), func(ctx context.Context) (err error) {
			if sent.IsZero() {
				sent = l.cfg.Now()
			}
			in.Body = bytes.NewReader(data)
			out, err = l.client.PutObject(ctx, in)
			return err
		})
		switch outcomeOf(err) {
		case done:
			received := l.cfg.Now()
			last := next.last()
			l.known.note(key, view{rec: &next, etag: aws.ToString(out.ETag), received: received}, sent)
			l.members.join(key, last, log, sent)
			l.followClock(kindLeases, key.String(), aws.ToString(out.ETag), sent, received)
			return &last, nil
		case precondition, absent:
			if !mayStand {
				return nil, nil
			}
			return l.settle(ctx, key, s, next, sent, log, err)
		case unclear:
			mayStand = true
		case conflict:
		default:
			if mayStand {
				return l.settle(ctx, key, s, next, sent, log, err)
			}
			return nil, l.failure(ctx, err, "", "the lease cannot be written")
		}
		if ctx.Err() != nil || l.ctx.Err() != nil || !l.again(ctx, n) {
			return l.settle(ctx, key, s, next, sent, log, err)
		}
	}
}

// settle finds out what became of a write whose answers were lost. The nonce in the trail proves that it
// took effect; another version in the place of the one it was to replace, without it, that it never
// will. While the old version is still there, it may yet.
func (l *Leases) settle(ctx context.Context, key messages.Key, old sighting, next record, sent time.Time, log *logWriter, cause error) (*entry, error) {
	unknown := func() (*entry, error) {
		return nil, l.failure(ctx, cause, "", "the lease may or may not have been written")
	}
	if l.begin(ctx) != nil {
		return unknown()
	}
	s, err := l.loadRecord(ctx, key)
	if err != nil {
		return unknown()
	}
	mine := next.last()
	switch {
	case s.rec != nil && s.rec.last().Nonce == mine.Nonce:
		l.known.note(key, s.view, sent)
		l.members.join(key, mine, log, sent)
		return &mine, nil
	case s.rec != nil && s.rec.holds(mine.Nonce) && (mine.Op != messages.OpAcquire && mine.Op != messages.OpRenew):
		return &mine, nil // and then somebody else went on
	case s.etag == old.etag:
		return unknown()
	}
	return nil, nil
}

// load reads the newest version of a record, and then the renewal log that it names; its rec is nil if there is none. Read
// in this order, and as complete does it, the two show a state that there was at some instant in between.
func (l *Leases) load(ctx context.Context, key messages.Key) (sighting, error) {
	s, err := l.loadRecord(ctx, key)
	if err != nil {
		return s, err
	}
	return l.complete(ctx, key, s)
}

func (l *Leases) loadRecord(ctx context.Context, key messages.Key) (sighting, error) {
	if err := l.begin(ctx); err != nil {
		return sighting{}, err
	}
	data, out, err := l.fetch(ctx, kindLeases, key.String(), maxRecordBytes)
	v := view{received: l.cfg.Now()}
	switch outcomeOf(err) {
	case done:
	case absent:
		return l.known.note(key, v, time.Time{}), nil
	default:
		return sighting{}, l.failure(ctx, err, "", "the lease cannot be read")
	}
	if v.rec, err = decode(key, data); err != nil {
		return sighting{}, err
	}
	v.etag = aws.ToString(out.ETag)
	v.age, v.aged = ageOf(out)
	l.members.superseded(key, v.rec.last())
	return l.known.note(key, v, time.Time{}), nil
}

// ageOf returns how old an object was, at least, when the server answered; false: it does not say.
func ageOf(out *awss3.GetObjectOutput) (time.Duration, bool) {
	date, ok := serverDate(out.ResultMetadata)
	if !ok || aws.ToTime(out.LastModified).IsZero() {
		return 0, false
	}
	return date.Sub(*out.LastModified) - resolution, true
}

// followClock takes a new sample of the server's clock now and then, from a version that was just
// written, without holding up who wrote it.
func (l *Leases) followClock(kind, name, etag string, sent, received time.Time) {
	if !l.clock.due(received) {
		return
	}
	l.background(func() {
		var head *awss3.HeadObjectOutput
		err := l.once(l.ctx, 0, func(ctx context.Context) (err error) {
			head, err = l.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &l.cfg.Bucket, Key: l.name(kind, name)})
			return err
		})
		if err == nil && etag != "" && aws.ToString(head.ETag) == etag && head.LastModified != nil {
			l.clock.sample(*head.LastModified, sent, received)
		}
	})
}
