package s3

import (
	"fmt"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Config says where a bucket is and how it is used. Only Bucket is needed where the environment names
// a region and credentials in the ways of the AWS SDK.
type Config struct {
	// Bucket is the name of a bucket that exists.
	Bucket string
	// Prefix is where in the bucket everything of this deployment lies: "", or segments as in object
	// keys, each followed by a slash, 100 bytes at most.
	Prefix string
	// Region of the bucket; "": what the environment says, else us-east-1.
	Region string
	// Endpoint is the URL of a server other than AWS.
	Endpoint string
	// PathStyle puts the bucket into the path of the URL and not into its host name.
	PathStyle bool
	// AccessKeyID, SecretAccessKey and SessionToken are fixed credentials; "": those of the
	// environment (variables, profile, instance role).
	AccessKeyID, SecretAccessKey, SessionToken string
	// SSE is the server-side encryption asked for: "" (the bucket's default), "AES256", "aws:kms" or
	// "aws:kms:dsse"; KMSKeyID names the key of the latter two, "" the account's own.
	SSE, KMSKeyID string
	// PartSize is the size of the parts of a multipart upload in bytes, and the largest object that is put
	// without one; 0: 16 MiB. Servers refuse less than 5 MiB.
	PartSize int64
	// MaxRequests is how many requests are in flight at most, leases and objects each for themselves; 0: 64. A renewal
	// log of this process may have one more: renewals do not wait behind the opens of many tenants.
	MaxRequests int
	// RequestTimeout is how long one request may take beside what its bytes need (a second for each
	// 256 KiB), when the context ends no earlier; 0: 15 s.
	RequestTimeout time.Duration
	// Attempts is how often a request is sent before the operation is CodeUnavailable; 0: 4.
	Attempts int
	// AllowVersioning accepts a bucket that keeps old versions. There a forgotten tenant is not gone.
	AllowVersioning bool
	// Now is the clock of this process, of which only differences are used; nil: time.Now.
	Now func() time.Time
}

// LeaseConfig tunes the leases of a bucket. The zero value is right for most.
type LeaseConfig struct {
	// ClockSkew is how far the server's Date header may be ahead of the clock that stamps
	// Last-Modified; 0: 1 s; below 0: these are not relied on at all. See the package comment.
	ClockSkew time.Duration
	// AcquireWait is how long Acquire waits for the proof that a lease whose end has passed is over; 0: 500 ms;
	// below 0: not at all.
	AcquireWait time.Duration
}

const (
	defaultPartSize    = 16 << 20
	defaultMaxRequests = 64
	defaultTimeout     = 15 * time.Second
	defaultAttempts    = 4
	maxPrefixBytes     = 100
	bytesPerSecond     = 256 << 10
	maxParts           = 10_000

	defaultClockSkew   = time.Second
	defaultAcquireWait = 500 * time.Millisecond
)

func (c Config) withDefaults() (Config, error) {
	invalid := func(format string, args ...any) (Config, error) {
		return c, &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf(format, args...)}
	}
	if c.Bucket == "" {
		return invalid("an S3 store needs a bucket")
	}
	if c.Prefix != "" && (stores.ValidateDeletePrefix(c.Prefix) != nil || len(c.Prefix) > maxPrefixBytes) {
		return invalid("the prefix %.120q is not segments of an object key with a slash after each, %d bytes at most", c.Prefix, maxPrefixBytes)
	}
	if c.Endpoint != "" {
		if u, err := url.Parse(c.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			return invalid("the endpoint is not a http or https URL without credentials")
		}
	}
	if (c.AccessKeyID == "") != (c.SecretAccessKey == "") || c.AccessKeyID == "" && c.SessionToken != "" {
		return invalid("fixed credentials need an access key and its secret")
	}
	switch types.ServerSideEncryption(c.SSE) {
	case "", types.ServerSideEncryptionAes256:
		if c.KMSKeyID != "" {
			return invalid("a KMS key needs the encryption aws:kms or aws:kms:dsse")
		}
	case types.ServerSideEncryptionAwsKms, types.ServerSideEncryptionAwsKmsDsse:
	default:
		return invalid("unknown server-side encryption %.40q", c.SSE)
	}
	if c.PartSize < 0 || c.MaxRequests < 0 || c.RequestTimeout < 0 || c.Attempts < 0 {
		return invalid("sizes, counts and timeouts must not be negative")
	}
	c.PartSize = orDefault(c.PartSize, defaultPartSize)
	c.MaxRequests = orDefault(c.MaxRequests, defaultMaxRequests)
	c.RequestTimeout = orDefault(c.RequestTimeout, defaultTimeout)
	c.Attempts = orDefault(c.Attempts, defaultAttempts)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

func orDefault[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}
