package s3

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Get implements stores.DurableStore. Bytes that do not have the SHA-256 that was stored with them are
// CodeCorrupt.
func (o *Objects) Get(ctx context.Context, key string, most int64) ([]byte, bool, error) {
	if err := stores.ValidateObjectKey(key); err != nil {
		return nil, false, err
	}
	if err := o.begin(ctx); err != nil {
		return nil, false, err
	}
	data, out, err := o.fetch(ctx, kindObjects, key, most)
	switch outcomeOf(err) {
	case done:
	case absent:
		return nil, false, nil
	default:
		return nil, false, o.failure(ctx, err, key, "the object cannot be read")
	}
	if want := out.Metadata[metaSum]; want != "" {
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
			return nil, false, &messages.Error{Code: messages.CodeCorrupt, Object: key, Message: "the bytes do not have the SHA-256 that was stored with them"}
		}
	}
	return data, true, nil
}

// maxRecordBytes bounds what is not an object of Objects: records, trails and renewal logs. A log of all the leases that one may
// have takes some hundred kilobytes.
const maxRecordBytes = 16 << 20

// fetch reads an object of at most so many bytes. A read that breaks off in the middle is begun again.
func (r requester) fetch(ctx context.Context, kind, key string, most int64) (data []byte, out *awss3.GetObjectOutput, err error) {
	var oversized error
	// How long an object takes is not known beforehand: the watch ends a read that stands still.
	err = r.repeat(ctx, 1<<40, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		watch := time.AfterFunc(r.patience, cancel)
		defer watch.Stop()
		out, err = r.client.GetObject(ctx, &awss3.GetObjectInput{Bucket: &r.cfg.Bucket, Key: r.name(kind, key)})
		if err != nil {
			return err
		}
		defer out.Body.Close()
		if out.ContentLength == nil || *out.ContentLength < 0 {
			return errors.New("an answer without a length")
		}
		size := *out.ContentLength
		if size > most {
			oversized = stores.Oversized(strings.TrimPrefix(kind+key, kindObjects), size, most)
			return nil // asking again would not make it smaller
		}
		data = make([]byte, size)
		for at := 0; at < len(data); {
			watch.Reset(r.patience)
			n, err := io.ReadFull(out.Body, data[at:min(at+1<<20, len(data))])
			if err != nil {
				return err
			}
			at += n
		}
		return nil
	})
	return data, out, cmp.Or(err, oversized)
}

// List implements stores.DurableStore.
func (o *Objects) List(ctx context.Context, prefix string) ([]string, error) {
	if err := stores.ValidateListPrefix(prefix); err != nil {
		return nil, err
	}
	if err := o.begin(ctx); err != nil {
		return nil, err
	}
	var keys []string
	err := o.list(ctx, kindObjects, prefix, "", 0, func(key string) bool {
		if stores.ValidateObjectKey(key) == nil { // else it is none of ours
			keys = append(keys, key)
		}
		return true
	})
	if err != nil {
		return nil, o.failure(ctx, err, prefix, "the objects cannot be listed")
	}
	slices.Sort(keys) // servers do so; it costs nothing to be sure
	return slices.Compact(keys), nil
}

// list calls each for every key of a kind that begins with prefix and comes after another, until it returns false.
// A page holds at most limit keys; 0: what the server likes.
func (r requester) list(ctx context.Context, kind, prefix, after string, limit int, each func(key string) bool) error {
	in := &awss3.ListObjectsV2Input{Bucket: &r.cfg.Bucket, Prefix: r.name(kind, prefix)}
	if after != "" {
		in.StartAfter = r.name(kind, after)
	}
	if limit > 0 {
		in.MaxKeys = aws.Int32(int32(min(limit, 1000)))
	}
	for {
		var page *awss3.ListObjectsV2Output
		err := r.repeat(ctx, 0, func(ctx context.Context) (err error) {
			page, err = r.client.ListObjectsV2(ctx, in)
			return err
		})
		if err != nil {
			return err
		}
		for _, object := range page.Contents {
			if key, ok := strings.CutPrefix(aws.ToString(object.Key), *r.name(kind, "")); ok && !each(key) {
				return nil
			}
		}
		if !aws.ToBool(page.IsTruncated) {
			return nil
		}
		if aws.ToString(page.NextContinuationToken) == "" {
			return errors.New("a page of a list that does not say where the next begins")
		}
		in.ContinuationToken, in.StartAfter = page.NextContinuationToken, nil
	}
}

// serverDate returns the Date header of an answer.
func serverDate(metadata middleware.Metadata) (time.Time, bool) {
	raw, ok := awsmiddleware.GetRawResponse(metadata).(*smithyhttp.Response)
	if !ok || raw == nil || raw.Response == nil {
		return time.Time{}, false
	}
	date, err := http.ParseTime(raw.Header.Get("Date"))
	return date, err == nil
}
