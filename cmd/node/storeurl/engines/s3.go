package engines

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/s3"
)

func checkS3(rest string) error {
	_, err := s3Config(rest)
	return err
}

// leaseBucket is s3.Leases by a name that does not hide its method Leases.
type leaseBucket = s3.Leases

// s3Leases are the leases of a bucket that is theirs alone.
type s3Leases struct {
	*leaseBucket
	closing
}

// s3Objects are the objects of a bucket that is theirs alone.
type s3Objects struct {
	*s3.Objects
	closing
}

var _ stores.LeaseLister = s3Leases{}

func openBucket(ctx context.Context, rest string) (*s3.Bucket, error) {
	cfg, err := s3Config(rest)
	if err != nil {
		return nil, err
	}
	return s3.Open(ctx, cfg)
}

func openS3Leases(ctx context.Context, rest string, _ storeurl.Options) (storeurl.LeaseStore, error) {
	bucket, err := openBucket(ctx, rest)
	if err != nil {
		return nil, err
	}
	leases, err := bucket.Leases(ctx, s3.LeaseConfig{})
	if err != nil {
		return nil, errors.Join(err, bucket.Close())
	}
	return s3Leases{leases, closing{bucket.Close}}, nil
}

func openS3Objects(ctx context.Context, rest string, _ storeurl.Options) (storeurl.DurableStore, error) {
	bucket, err := openBucket(ctx, rest)
	if err != nil {
		return nil, err
	}
	return s3Objects{bucket.Objects(), closing{bucket.Close}}, nil
}

func s3Config(rest string) (s3.Config, error) {
	a := parse("s3", rest)
	cfg := s3.Config{
		Bucket: a.Host, Region: a.take("region"), Endpoint: a.take("endpoint"), PathStyle: a.flag("path_style"),
		SSE: a.oneOf("sse", "", "AES256", "aws:kms", "aws:kms:dsse"), KMSKeyID: a.take("kms_key_id"),
		MaxRequests: a.number("max_requests", 1), PartSize: int64(a.number("part_size", 5<<20)), AllowVersioning: a.flag("allow_versioning"),
	}
	if prefix := strings.Trim(a.Path, "/"); prefix != "" {
		cfg.Prefix = prefix + "/"
	}
	switch {
	case a.User != nil:
		a.fail("the URL of an s3 store holds no credentials: they come from the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, …) or the machine's role")
	case cfg.Bucket == "" || strings.ContainsAny(cfg.Bucket, ":,"):
		a.fail("the URL of an s3 store names no bucket: s3://BUCKET[/PREFIX]")
	case cfg.Prefix != "" && stores.ValidateDeletePrefix(cfg.Prefix) != nil:
		a.fail("the prefix %.120q is not segments of an object key", cfg.Prefix)
	case cfg.Endpoint != "":
		if u, err := url.Parse(cfg.Endpoint); err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			a.fail("the parameter %q must be a http or https URL without credentials", "endpoint")
		}
	}
	if cfg.KMSKeyID != "" && !strings.HasPrefix(cfg.SSE, "aws:kms") {
		a.fail("kms_key_id needs sse=aws:kms or sse=aws:kms:dsse")
	}
	return cfg, a.done()
}
