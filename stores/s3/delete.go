package s3

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/leasehold/leasehold/stores"
)

// maxDeletes is how many keys one request deletes at most.
const maxDeletes = 1000

// Delete implements stores.DurableStore. The delete is conditional on the version that was found, so one
// that lands late does not take what was put since (unless that has the same bytes, or the server ignores
// the condition). Of several deletes at once more than one may report that the object was there: S3 does
// not tell a delete of something from one of nothing.
func (o *Objects) Delete(ctx context.Context, key string) (bool, error) {
	if err := stores.ValidateObjectKey(key); err != nil {
		return false, err
	}
	if err := o.begin(ctx); err != nil {
		return false, err
	}
	name := o.name(kindObjects, key)
	mayHave := false // an attempt before may have deleted it
	for n := 0; ; n++ {
		var head *awss3.HeadObjectOutput
		err := o.repeat(ctx, 0, func(ctx context.Context) (err error) {
			head, err = o.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &o.cfg.Bucket, Key: name})
			return err
		})
		switch outcomeOf(err) {
		case done:
		case absent:
			return mayHave, nil
		default:
			return false, o.failure(ctx, err, key, "the object cannot be looked at")
		}
		err = o.once(ctx, 0, func(ctx context.Context) error {
			_, err := o.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &o.cfg.Bucket, Key: name, IfMatch: head.ETag})
			return err
		})
		switch outcomeOf(err) {
		case done:
			return true, nil
		case unclear:
			mayHave = true
		case precondition, absent, conflict: // somebody else was there in between
		default:
			return false, o.failure(ctx, err, key, "the object cannot be deleted")
		}
		if ctx.Err() != nil || !o.again(ctx, n) {
			return false, o.failure(ctx, err, key, "the object may or may not have been deleted")
		}
	}
}

// DeletePrefix implements stores.DurableStore. It deletes and counts what one listing shows, a thousand
// keys with each request. What is put meanwhile may remain. After an error the count is what is known
// to be deleted.
func (o *Objects) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	if err := stores.ValidateDeletePrefix(prefix); err != nil {
		return 0, err
	}
	keys, err := o.List(ctx, prefix)
	if err != nil {
		return 0, err
	}
	count := 0
	for from := 0; from < len(keys); from += maxDeletes {
		batch := keys[from:min(from+maxDeletes, len(keys))]
		if err := o.deleteBatch(ctx, kindObjects, batch); err != nil {
			return count, err
		}
		count += len(batch)
	}
	return count, nil
}

// deleteBatch deletes keys. To delete one that is gone is no error, so the request can be repeated.
func (r requester) deleteBatch(ctx context.Context, kind string, keys []string) error {
	for n := 0; ; n++ {
		ids := make([]types.ObjectIdentifier, len(keys))
		for i, key := range keys {
			ids[i] = types.ObjectIdentifier{Key: r.name(kind, key)}
		}
		var out *awss3.DeleteObjectsOutput
		err := r.repeat(ctx, 0, func(ctx context.Context) (err error) {
			out, err = r.client.DeleteObjects(ctx, &awss3.DeleteObjectsInput{
				Bucket: &r.cfg.Bucket, Delete: &types.Delete{Objects: ids, Quiet: aws.Bool(true)}})
			return err
		})
		if err != nil {
			return r.failure(ctx, err, keys[0], "objects cannot be deleted")
		}
		// The answer may be a success although single keys failed.
		failed := out.Errors
		if len(failed) == 0 {
			return nil
		}
		if !r.again(ctx, n) {
			return r.failure(ctx, fmt.Errorf("%d keys, the first with %s", len(failed), aws.ToString(failed[0].Code)), keys[0], "objects cannot be deleted")
		}
	}
}
