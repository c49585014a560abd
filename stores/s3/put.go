package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Objects is a durable store in a bucket. It is safe for concurrent use.
type Objects struct{ requester }

var (
	_ stores.DurableStore  = (*Objects)(nil)
	_ stores.ObjectLimiter = (*Objects)(nil)
)

// maxObjectBytes is S3's own limit.
const maxObjectBytes = 5 << 40

// MaxObjectBytes implements stores.ObjectLimiter: an upload has at most 10,000 parts.
func (o *Objects) MaxObjectBytes() int64 { return min(maxParts*o.cfg.PartSize, maxObjectBytes) }

// What an object's metadata say: the SHA-256 of its bytes, and which call of PutIfAbsent created it.
const (
	metaSum  = "leasehold-sha256"
	metaMark = "leasehold-mark"
)

// body is what one call of PutIfAbsent puts.
type body struct {
	name *string // in the bucket
	key  string
	data []byte
	sum  [sha256.Size]byte
	mark string
}

func (p body) metadata() map[string]string {
	return map[string]string{metaSum: hex.EncodeToString(p.sum[:]), metaMark: p.mark}
}

// PutIfAbsent implements stores.DurableStore. A lost answer is settled by putting the same bytes again
// and reading the mark of what is there; if that cannot be had, it is CodeUnavailable.
func (o *Objects) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	if err := stores.ValidateObjectKey(key); err != nil {
		return false, err
	}
	if err := o.begin(ctx); err != nil {
		return false, err
	}
	p := body{name: o.name(kindObjects, key), key: key, data: data, sum: sha256.Sum256(data), mark: rand.Text()}
	if int64(len(data)) > o.cfg.PartSize {
		return o.putLarge(ctx, p)
	}
	put := func(ctx context.Context) error {
		_, err := o.client.PutObject(ctx, &awss3.PutObjectInput{
			Bucket: &o.cfg.Bucket, Key: p.name, Body: bytes.NewReader(p.data), ContentLength: aws.Int64(int64(len(p.data))),
			IfNoneMatch: aws.String("*"), Metadata: p.metadata(), ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(p.sum[:])),
			ServerSideEncryption: types.ServerSideEncryption(o.cfg.SSE), SSEKMSKeyId: optional(o.cfg.KMSKeyID),
		})
		return err
	}
	mayStand := false // an attempt before may have taken effect
	for n := 0; ; n++ {
		err := o.once(ctx, int64(len(data)), put)
		switch outcomeOf(err) {
		case done:
			return true, nil
		case precondition:
			if !mayStand {
				return false, nil
			}
			return o.settle(ctx, p, err)
		case conflict:
		case unclear:
			mayStand = true
		default:
			if mayStand {
				return o.settle(ctx, p, err)
			}
			return false, o.failure(ctx, err, key, "the object cannot be put")
		}
		if ctx.Err() != nil || o.ctx.Err() != nil || !o.again(ctx, n) {
			return o.settle(ctx, p, err)
		}
	}
}

// settle finds out what became of a put whose answers were lost. Only what the object itself says counts.
// An object that is absent proves nothing: the put may still be on its way.
func (o *Objects) settle(ctx context.Context, p body, cause error) (bool, error) {
	if o.begin(ctx) == nil {
		mark, ok, err := o.mark(ctx, p.name)
		if err == nil && ok {
			return mark == p.mark, nil
		}
	}
	return false, o.failure(ctx, cause, p.key, "the object may or may not have been put")
}

// mark reads which call created an object.
func (o *Objects) mark(ctx context.Context, name *string) (mark string, ok bool, err error) {
	var head *awss3.HeadObjectOutput
	err = o.repeat(ctx, 0, func(ctx context.Context) (err error) {
		head, err = o.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &o.cfg.Bucket, Key: name})
		return err
	})
	switch outcomeOf(err) {
	case done:
		return head.Metadata[metaMark], true, nil
	case absent:
		return "", false, nil
	}
	return "", false, err
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func tooLarge(key string) error {
	return &messages.Error{Code: messages.CodeTooLarge, Object: key, Message: "the object needs more than 10,000 parts; raise the part size"}
}
