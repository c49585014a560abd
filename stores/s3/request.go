package s3

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// requester sends requests to the bucket, a bounded number at a time.
type requester struct {
	*Bucket
	room chan struct{}
	// patience is how long one request may take beside what its bytes need.
	patience time.Duration
}

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second

	leastPatience = 500 * time.Millisecond
	mostPatience  = 2 * time.Second
)

// inTimeFor gives a request up so soon that what has to be written within a ttl can be tried more than once: an answer that
// never comes must not cost the lease, least of all where many stand in one object.
func (r requester) inTimeFor(ttl time.Duration) requester {
	r.patience = min(r.patience, max(ttl/6, leastPatience), mostPatience)
	return r
}

// once sends one request of a size in bytes. Its context ends with the caller's, with the bucket, and
// when the request has taken too long.
func (r requester) once(ctx context.Context, size int64, send func(context.Context) error) error {
	ctx, cancel := r.within(ctx, size)
	defer cancel()
	select {
	case r.room <- struct{}{}:
		defer func() { <-r.room }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return send(ctx)
}

func (r requester) within(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	limit := r.patience + time.Duration(size/bytesPerSecond)*time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(r.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// again says whether a request may be sent once more after attempt number n (from 0), and waits before
// it: longer each time, and by chance, so that many clients do not come back together.
func (r requester) again(ctx context.Context, n int) bool {
	if n+1 >= r.cfg.Attempts {
		return false
	}
	pause := min(firstPause<<n, maxPause)
	return r.sleep(ctx, pause/2+rand.N(pause)) == nil
}

// sleep waits for d, or returns the error of what ended the wait.
func (r requester) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// repeat sends a request that may take effect more than once without harm, until it has an answer.
func (r requester) repeat(ctx context.Context, size int64, send func(context.Context) error) error {
	for n := 0; ; n++ {
		err := r.once(ctx, size, send)
		switch outcomeOf(err) {
		case unclear, conflict:
			if ctx.Err() == nil && r.ctx.Err() == nil && r.again(ctx, n) {
				continue
			}
		}
		return err
	}
}

// document returns the put of a JSON document that replaces the version with an etag; "": that creates it. The body is set
// for each try.
func (r requester) document(kind, key string, data []byte, etag string) *awss3.PutObjectInput {
	sum := sha256.Sum256(data)
	in := &awss3.PutObjectInput{Bucket: &r.cfg.Bucket, Key: r.name(kind, key), ContentType: aws.String("application/json"),
		ChecksumSHA256:       aws.String(base64.StdEncoding.EncodeToString(sum[:])),
		ServerSideEncryption: types.ServerSideEncryption(r.cfg.SSE), SSEKMSKeyId: optional(r.cfg.KMSKeyID)}
	if etag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &etag
	}
	return in
}

// begin refuses work on a closed bucket, and for a caller who has given up.
func (r requester) begin(ctx context.Context) error {
	if r.ctx.Err() != nil || ctx.Err() != nil {
		return r.failure(ctx, errors.New("not sent"), "", "not sent")
	}
	return nil
}
