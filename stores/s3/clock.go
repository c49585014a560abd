package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	resolution  = time.Second           // of Date and Last-Modified
	tickPause   = 10 * time.Millisecond // between two looks for the tick of the server's clock
	tickTimeout = 3 * time.Second       // a clock that does not tick within it is none
	slew        = 1000                  // the estimate is corrected by at most 1/slew of the time that passes
	drift       = 5000                  // what is known of the offset widens by 1/drift of the time that passes
	maxOff      = 2 * time.Second       // an estimate that is further off is replaced at once
	stale       = time.Minute           // a sample older than this is worth a new one
)

// clock estimates the server's clock from Last-Modified: a version that was written between two readings
// of this process's clock, and is stamped L, was written at L or less than a second after it. Many such
// samples narrow the offset of the two clocks down (the intersection method of Marzullo). Nothing
// that has to be safe depends on it; see the package comment.
type clock struct {
	now func() time.Time

	mu       sync.Mutex
	zero     time.Time // a reading of now, from which all are counted
	known    bool
	lo, hi   time.Duration // the server's time (since 1970) when this clock was at zero lies between
	sampled  time.Duration // since zero: the newest sample
	asked    time.Duration // since zero: when a new one was last asked for
	estimate time.Duration // the server's time (since 1970) …
	at       time.Duration // … at this time since zero
}

func newClock(now func() time.Time) *clock { return &clock{now: now, zero: now()} }

// sample notes that a version stamped modified was written between two readings of the clock.
func (c *clock) sample(modified, sent, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamp := time.Duration(modified.UnixNano())
	lo, hi := stamp-received.Sub(c.zero), stamp+resolution-sent.Sub(c.zero)
	at := received.Sub(c.zero)
	if c.known {
		wider := max(0, at-c.sampled) / drift
		c.lo, c.hi = max(lo, c.lo-wider), min(hi, c.hi+wider)
	}
	if !c.known || c.lo > c.hi { // the server's clock was set: what was known before is worth nothing
		c.lo, c.hi = lo, hi
	}
	c.sampled = max(c.sampled, at)
	if !c.known {
		c.known = true
		c.estimate, c.at = c.middle()+at, at
	}
}

func (c *clock) middle() time.Duration { return c.lo + (c.hi-c.lo)/2 }

// read returns the estimated time of the server at a reading of this process's clock, in whole ms.
func (c *clock) read(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := now.Sub(c.zero)
	if passed := at - c.at; passed > 0 {
		c.estimate, c.at = c.estimate+passed, at
		off := c.middle() + at - c.estimate
		if off > maxOff || off < -maxOff {
			c.estimate += off
		} else {
			c.estimate += min(max(off, -passed/slew), passed/slew)
		}
	}
	return time.UnixMilli((c.estimate - (c.at - min(at, c.at))).Milliseconds()).UTC()
}

// due says whether it is time for a new sample, and counts it as asked for.
func (c *clock) due(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := now.Sub(c.zero)
	if at-max(c.sampled, c.asked) < stale {
		return false
	}
	c.asked = at
	return true
}

// settleDown takes the middle of what is known as the estimate, while nothing has been told yet.
func (c *clock) settleDown(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := now.Sub(c.zero)
	c.estimate, c.at = c.middle()+at, at
}

// calibrate writes small objects one after the other until the second of their Last-Modified changes: the
// instant of the tick is then known within a few round trips. (Each has a name of its own, because some
// servers take only one write per second of one name.)
func (l *Leases) calibrate(ctx context.Context) error {
	var keys []string
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(abortTimeout, l.cfg.RequestTimeout))
		defer cancel()
		for from := 0; from < len(keys); from += maxDeletes {
			_ = l.deleteBatch(ctx, kindProbe, keys[from:min(from+maxDeletes, len(keys))])
		}
	}()
	var first time.Time
	begin := l.cfg.Now()
	for {
		keys = append(keys, "clock-"+rand.Text())
		modified, err := l.stamp(ctx, l.name(kindProbe, keys[len(keys)-1]))
		if err != nil {
			return l.failure(ctx, err, "", "the server does not say its time")
		}
		if first.IsZero() {
			first = modified
		}
		if !modified.Equal(first) {
			break
		}
		if l.cfg.Now().Sub(begin) > tickTimeout {
			return broken("its Last-Modified stands still")
		}
		if err := l.sleep(ctx, tickPause); err != nil {
			return l.failure(ctx, err, "", "the server's clock was not found")
		}
	}
	l.clock.settleDown(l.cfg.Now())
	return nil
}

func (l *Leases) stamp(ctx context.Context, name *string) (time.Time, error) {
	var sent, received time.Time
	err := l.repeat(ctx, 0, func(ctx context.Context) error {
		sent = l.cfg.Now()
		_, err := l.client.PutObject(ctx, &awss3.PutObjectInput{Bucket: &l.cfg.Bucket, Key: name, Body: strings.NewReader("tick"),
			ServerSideEncryption: types.ServerSideEncryption(l.cfg.SSE), SSEKMSKeyId: optional(l.cfg.KMSKeyID)})
		received = l.cfg.Now()
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	var head *awss3.HeadObjectOutput
	err = l.repeat(ctx, 0, func(ctx context.Context) (err error) {
		head, err = l.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &l.cfg.Bucket, Key: name})
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	if aws.ToTime(head.LastModified).IsZero() {
		return time.Time{}, errors.New("no Last-Modified")
	}
	l.clock.sample(*head.LastModified, sent, received)
	return *head.LastModified, nil
}
