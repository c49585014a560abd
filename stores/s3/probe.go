package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/leasehold/leasehold/messages"
)

// probe tries what the stores rely on, under a key that nobody else uses. A server that ignores a
// condition answers as if there were none, so only trying tells.
func (b *Bucket) probe(ctx context.Context) error {
	r := b.requester()
	if err := r.checkVersioning(ctx); err != nil {
		return err
	}
	key := rand.Text()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(5*time.Second, b.cfg.RequestTimeout))
		defer cancel()
		_ = r.repeat(ctx, 0, func(ctx context.Context) error {
			_, err := b.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &b.cfg.Bucket, Key: b.name(kindProbe, key)})
			return err
		})
	}()
	first, err := r.probePut(ctx, key, "one", "", done)
	if err != nil {
		return err
	}
	if _, err := r.probePut(ctx, key, "two", "", precondition); err != nil {
		return err
	}
	second, err := r.probePut(ctx, key, "three", first, done)
	if err != nil {
		return err
	}
	if second == first || second == "" {
		return broken("two versions of an object have one ETag")
	}
	if _, err := r.probePut(ctx, key, "four", first, precondition); err != nil {
		return err
	}
	if err := r.probeMultipart(ctx, key); err != nil {
		return err
	}
	data, _, err := r.fetch(ctx, kindProbe, key, maxRecordBytes)
	if err != nil {
		return r.failure(ctx, err, "", "the bucket cannot be read")
	}
	if string(data) != "three" {
		return broken("a write that was refused took effect")
	}
	listed := false
	err = r.list(ctx, kindProbe, key, "", 0, func(k string) bool { listed = listed || k == key; return true })
	if err != nil {
		return r.failure(ctx, err, "", "the bucket cannot be listed")
	}
	if !listed {
		return broken("a list does not show what was put before")
	}
	return nil
}

// probePut puts with a condition (that the ETag matches; "": that there is nothing) and wants one
// outcome. A lost answer makes the outcome ambiguous; then the probe as a whole has failed, and Open
// can be called again.
func (r requester) probePut(ctx context.Context, key, text, etag string, want outcome) (string, error) {
	in := &awss3.PutObjectInput{Bucket: &r.cfg.Bucket, Key: r.name(kindProbe, key), Body: strings.NewReader(text),
		ServerSideEncryption: types.ServerSideEncryption(r.cfg.SSE), SSEKMSKeyId: optional(r.cfg.KMSKeyID)}
	if etag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &etag
	}
	var out *awss3.PutObjectOutput
	err := r.once(ctx, 0, func(ctx context.Context) (err error) {
		out, err = r.client.PutObject(ctx, in)
		return err
	})
	got := outcomeOf(err)
	switch {
	case got == want && got == done:
		return aws.ToString(out.ETag), nil
	case got == want:
		return "", nil
	case got == done:
		return "", broken("the server ignores conditional writes")
	case got == precondition:
		return "", broken("the server refuses conditional writes whose condition holds")
	}
	return "", r.failure(ctx, err, "", "the bucket cannot be written conditionally")
}

// probeMultipart completes an upload onto an object that exists, which must be refused.
func (r requester) probeMultipart(ctx context.Context, key string) error {
	ctx, cancel := r.within(ctx, 0)
	defer cancel()
	name := r.name(kindProbe, key)
	fail := func(err error) error { return r.failure(ctx, err, "", "the bucket takes no multipart uploads") }
	created, err := r.client.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: &r.cfg.Bucket, Key: name,
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256, ServerSideEncryption: types.ServerSideEncryption(r.cfg.SSE), SSEKMSKeyId: optional(r.cfg.KMSKeyID)})
	if err != nil {
		return fail(err)
	}
	o := &Objects{requester: r}
	data := []byte("five")
	sum := sha256.Sum256(data)
	checksum := aws.String(base64.StdEncoding.EncodeToString(sum[:]))
	defer o.abort(ctx, name, created.UploadId)
	part, err := r.client.UploadPart(ctx, &awss3.UploadPartInput{Bucket: &r.cfg.Bucket, Key: name, UploadId: created.UploadId, PartNumber: aws.Int32(1),
		Body: bytes.NewReader(data), ChecksumSHA256: checksum})
	if err != nil {
		return fail(err)
	}
	_, err = r.client.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{Bucket: &r.cfg.Bucket, Key: name, UploadId: created.UploadId,
		IfNoneMatch: aws.String("*"), MultipartUpload: &types.CompletedMultipartUpload{
			Parts: []types.CompletedPart{{PartNumber: aws.Int32(1), ETag: part.ETag, ChecksumSHA256: checksum}}}})
	switch outcomeOf(err) {
	case precondition:
		return nil
	case done:
		return broken("the server ignores the condition of a multipart completion")
	}
	return fail(err)
}

// checkVersioning refuses a bucket that keeps what is deleted. A server that does not know versions, or
// does not let us ask, is believed.
func (r requester) checkVersioning(ctx context.Context) error {
	if r.cfg.AllowVersioning {
		return nil
	}
	var out *awss3.GetBucketVersioningOutput
	err := r.repeat(ctx, 0, func(ctx context.Context) (err error) {
		out, err = r.client.GetBucketVersioning(ctx, &awss3.GetBucketVersioningInput{Bucket: &r.cfg.Bucket})
		return err
	})
	if err == nil && out.Status == types.BucketVersioningStatusEnabled {
		return &messages.Error{Code: messages.CodeInvalidArgument, Message: "the bucket keeps old versions, so what is forgotten stays; set AllowVersioning if a rule expires them"}
	}
	if ctx.Err() != nil {
		return r.failure(ctx, err, "", "the bucket cannot be asked")
	}
	return nil
}

func broken(why string) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf("this S3 server cannot be used: %s", why)}
}
