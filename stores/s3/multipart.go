package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/messages"
)

const (
	partsAtOnce  = 4
	abortTimeout = 10 * time.Second
)

// putLarge puts an object in parts. The object appears with the completion, which carries the condition.
func (o *Objects) putLarge(ctx context.Context, p body) (bool, error) {
	if int64(len(p.data)) > o.MaxObjectBytes() {
		return false, tooLarge(p.key)
	}
	// Not to send a large image for nothing. The condition decides all the same.
	if _, ok, err := o.mark(ctx, p.name); err != nil || ok {
		if err != nil {
			err = o.failure(ctx, err, p.key, "the object cannot be put")
		}
		return false, err
	}
	for n := 0; ; n++ {
		created, err := o.upload(ctx, p)
		// A completion that met another must be begun anew: its upload is used up.
		if outcomeOf(err) != conflict || !o.again(ctx, n) {
			if err != nil {
				err = o.failure(ctx, err, p.key, "the object cannot be put in parts")
			}
			return created, err
		}
	}
}

func (o *Objects) upload(ctx context.Context, p body) (created bool, err error) {
	var id *string
	// An answer that is lost leaves an upload that nobody knows: AbortLeftovers finds it.
	err = o.repeat(ctx, 0, func(ctx context.Context) error {
		out, err := o.client.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{
			Bucket: &o.cfg.Bucket, Key: p.name, Metadata: p.metadata(), ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
			ServerSideEncryption: types.ServerSideEncryption(o.cfg.SSE), SSEKMSKeyId: optional(o.cfg.KMSKeyID),
		})
		if err == nil {
			id = out.UploadId
		}
		return err
	})
	if err != nil {
		return false, err
	}
	defer func() {
		if !created || err != nil {
			o.abort(ctx, p.name, id)
		}
	}()
	parts := make([]types.CompletedPart, (int64(len(p.data))+o.cfg.PartSize-1)/o.cfg.PartSize)
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(partsAtOnce)
	for i := range parts {
		group.Go(func() error { return o.part(gctx, p, id, i, &parts[i]) })
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	return o.complete(ctx, p, id, parts)
}

func (o *Objects) part(ctx context.Context, p body, id *string, i int, part *types.CompletedPart) error {
	from := int64(i) * o.cfg.PartSize
	data := p.data[from:min(from+o.cfg.PartSize, int64(len(p.data)))]
	sum := sha256.Sum256(data)
	*part = types.CompletedPart{PartNumber: aws.Int32(int32(i + 1)), ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(sum[:]))}
	return o.repeat(ctx, int64(len(data)), func(ctx context.Context) error {
		out, err := o.client.UploadPart(ctx, &awss3.UploadPartInput{
			Bucket: &o.cfg.Bucket, Key: p.name, UploadId: id, PartNumber: part.PartNumber, ChecksumSHA256: part.ChecksumSHA256,
			Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		})
		if err == nil {
			part.ETag = out.ETag
		}
		return err
	})
}

func (o *Objects) complete(ctx context.Context, p body, id *string, parts []types.CompletedPart) (bool, error) {
	mayStand := false
	for n := 0; ; n++ {
		// The server may put the parts together for as long as it would take to send them.
		err := o.once(ctx, int64(len(p.data)), func(ctx context.Context) error {
			_, err := o.client.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
				Bucket: &o.cfg.Bucket, Key: p.name, UploadId: id, IfNoneMatch: aws.String("*"),
				MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
			})
			return err
		})
		switch outcomeOf(err) {
		case done:
			return true, nil
		case precondition:
			if !mayStand {
				return false, nil
			}
			return o.settle(ctx, p, err)
		case unclear:
			mayStand = true
		case conflict:
			if !mayStand {
				return false, err
			}
			return o.settle(ctx, p, err)
		default: // no such upload: completed by the attempt before, if there was one
			if mayStand {
				return o.settle(ctx, p, err)
			}
			return false, err
		}
		if ctx.Err() != nil || o.ctx.Err() != nil || !o.again(ctx, n) {
			return o.settle(ctx, p, err)
		}
	}
}

// abort gives an upload up, so that its parts take no space. It is tried even if the caller has given
// up; what remains all the same is found by AbortLeftovers. An upload whose completion was unclear is
// aborted too: that either comes first, and then nothing will appear, or finds nothing.
func (o *Objects) abort(ctx context.Context, name, id *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(abortTimeout, o.cfg.RequestTimeout))
	defer cancel()
	_ = o.repeat(ctx, 0, func(ctx context.Context) error {
		_, err := o.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &o.cfg.Bucket, Key: name, UploadId: id})
		return err
	})
}

// AbortLeftovers aborts the multipart uploads of objects that began longer ago than age, by the
// server's clock: those of processes that died. It counts them. An age that a living upload can reach
// makes that upload fail. It is CodeInvalidArgument for a negative age.
func (o *Objects) AbortLeftovers(ctx context.Context, age time.Duration) (int, error) {
	if age < 0 {
		return 0, &messages.Error{Code: messages.CodeInvalidArgument, Message: "a negative age of leftovers"}
	}
	if err := o.begin(ctx); err != nil {
		return 0, err
	}
	count := 0
	in := &awss3.ListMultipartUploadsInput{Bucket: &o.cfg.Bucket, Prefix: o.name(kindObjects, "")}
	for {
		var page *awss3.ListMultipartUploadsOutput
		err := o.repeat(ctx, 0, func(ctx context.Context) (err error) {
			page, err = o.client.ListMultipartUploads(ctx, in)
			return err
		})
		if err != nil {
			return count, o.failure(ctx, err, "", "the uploads cannot be listed")
		}
		now, ok := serverDate(page.ResultMetadata)
		if !ok {
			return count, o.failure(ctx, errors.New("no Date"), "", "the server does not say its time")
		}
		for _, u := range page.Uploads {
			if u.Initiated == nil || now.Sub(*u.Initiated) < age {
				continue
			}
			err := o.repeat(ctx, 0, func(ctx context.Context) error {
				_, err := o.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &o.cfg.Bucket, Key: u.Key, UploadId: u.UploadId})
				return err
			})
			switch outcomeOf(err) {
			case done:
				count++
			case noUpload:
			default:
				return count, o.failure(ctx, err, "", "a leftover cannot be aborted")
			}
		}
		if !aws.ToBool(page.IsTruncated) {
			return count, nil
		}
		in.KeyMarker, in.UploadIdMarker = page.NextKeyMarker, page.NextUploadIdMarker
	}
}
