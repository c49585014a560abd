package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/leasehold/leasehold/messages"
)

// change is what an operation wants to write: the entry (its number and nonce are filled in), when, and the
// span of the record.
type change struct {
	entry entry
	at    int64
	span  time.Duration
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

// update decides on the newest version of a record and writes what was decided, on the condition that
// the version is still the newest; else it decides anew. With own, a version that this process wrote
// itself is believed to be the newest until the write shows otherwise; but nothing is ever REFUSED on
// such a belief.
func (l *Leases) update(ctx context.Context, key messages.Key, own bool, decide func(sighting, time.Time) (change, error)) (messages.Lease, error) {
	if err := l.begin(ctx); err != nil {
		return messages.Lease{}, err
	}
	for range maxRounds {
		s, believed := l.known.own(key)
		believed = believed && own
		if !believed {
			var err error
			if s, err = l.load(ctx, key); err != nil {
				return messages.Lease{}, err
			}
		}
		own = false
		c, err := decide(s, l.cfg.Now())
		var wait *waitError
		switch {
		case err != nil && believed:
			continue
		case errors.As(err, &wait):
			if l.sleep(ctx, wait.Duration) != nil {
				return messages.Lease{}, wait.answer
			}
			continue
		case err != nil:
			return messages.Lease{}, err
		}
		written, err := l.write(ctx, key, s, c)
		if err != nil {
			return messages.Lease{}, err
		}
		if written != nil {
			return written.lease(key), nil
		}
	}
	return messages.Lease{}, &messages.Error{Code: messages.CodeUnavailable, Key: key.String(), Message: "others were faster a hundred times"}
}

// write replaces version s by one with a change. It returns nil if another version came first.
func (l *Leases) write(ctx context.Context, key messages.Key, s sighting, c change) (*entry, error) {
	next := record{V: version, Key: key.String(), SpanMS: (c.span + time.Millisecond - 1).Milliseconds()}
	e := c.entry
	e.AtMS, e.Nonce, e.Seq = c.at, rand.Text(), 1
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
	return l.replace(ctx, key, s, next, data)
}

// replace sends the new version until it is known what became of it. All tries are the same bytes with
// the same condition, so together they take effect at most once.
func (l *Leases) replace(ctx context.Context, key messages.Key, s sighting, next record, data []byte) (*entry, error) {
	sum := sha256.Sum256(data)
	in := &awss3.PutObjectInput{Bucket: &l.cfg.Bucket, Key: l.name(kindLeases, key.String()), ContentType: aws.String("application/json"),
		ChecksumSHA256:       aws.String(base64.StdEncoding.EncodeToString(sum[:])),
		ServerSideEncryption: types.ServerSideEncryption(l.cfg.SSE), SSEKMSKeyId: optional(l.cfg.KMSKeyID)}
	if s.rec == nil {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &s.etag
	}
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
			l.known.note(key, view{rec: &next, etag: aws.ToString(out.ETag), received: received}, sent)
			l.followClock(key, next.last().Nonce, sent, received)
			last := next.last()
			return &last, nil
		case precondition, absent:
			if !mayStand {
				return nil, nil
			}
			return l.settle(ctx, key, s, next, sent, err)
		case unclear:
			mayStand = true
		case conflict:
		default:
			if mayStand {
				return l.settle(ctx, key, s, next, sent, err)
			}
			return nil, l.failure(ctx, err, "", "the lease cannot be written")
		}
		if ctx.Err() != nil || l.ctx.Err() != nil || !l.again(ctx, n) {
			return l.settle(ctx, key, s, next, sent, err)
		}
	}
}

// settle finds out what became of a write whose answers were lost. The nonce in the trail proves that it
// took effect; another version in the place of the one it was to replace, without it, that it never
// will. While the old version is still there, it may yet.
func (l *Leases) settle(ctx context.Context, key messages.Key, old sighting, next record, sent time.Time, cause error) (*entry, error) {
	unknown := func() (*entry, error) {
		return nil, l.failure(ctx, cause, "", "the lease may or may not have been written")
	}
	if l.begin(ctx) != nil {
		return unknown()
	}
	s, err := l.load(ctx, key)
	if err != nil {
		return unknown()
	}
	mine := next.last()
	switch {
	case s.rec != nil && s.rec.last().Nonce == mine.Nonce:
		l.known.note(key, s.view, sent)
		return &mine, nil
	case s.rec != nil && s.rec.holds(mine.Nonce) && (mine.Op == messages.OpRelease || mine.Op == messages.OpForget):
		return &mine, nil // and then somebody else went on
	case s.etag == old.etag:
		return unknown()
	}
	return nil, nil
}

// load reads the newest version of a record; its rec is nil if there is none.
func (l *Leases) load(ctx context.Context, key messages.Key) (sighting, error) {
	if err := l.begin(ctx); err != nil {
		return sighting{}, err
	}
	data, out, err := l.fetch(ctx, l.name(kindLeases, key.String()))
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
	if date, ok := serverDate(out.ResultMetadata); ok && out.LastModified != nil && !out.LastModified.IsZero() {
		v.age, v.aged = date.Sub(*out.LastModified)-resolution, true
	}
	return l.known.note(key, v, time.Time{}), nil
}

// followClock takes a new sample of the server's clock now and then, from a version that was just
// written, without holding up who wrote it.
func (l *Leases) followClock(key messages.Key, nonce string, sent, received time.Time) {
	if !l.clock.due(received) {
		return
	}
	l.background(func() {
		var head *awss3.HeadObjectOutput
		etag := ""
		if s, ok := l.known.own(key); ok && s.rec.last().Nonce == nonce {
			etag = s.etag
		}
		err := l.once(l.ctx, 0, func(ctx context.Context) (err error) {
			head, err = l.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &l.cfg.Bucket, Key: l.name(kindLeases, key.String())})
			return err
		})
		if err == nil && etag != "" && aws.ToString(head.ETag) == etag && head.LastModified != nil {
			l.clock.sample(*head.LastModified, sent, received)
		}
	})
}
