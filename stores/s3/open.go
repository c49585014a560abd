package s3

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/leasehold/leasehold/messages"
)

// Bucket is an open bucket. It is safe for concurrent use.
type Bucket struct {
	cfg       Config
	client    *awss3.Client
	transport *http.Transport

	// ctx ends with Close, and every request with it.
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	wg     sync.WaitGroup // what runs in the background; begun under mu
}

// Open opens a bucket and tries, under reserved keys, what the stores rely on: that conditional puts,
// replacements and multipart completions are refused when they must be, and that a list shows what was
// put. The errors are CodeInvalidArgument for a Config that can never work, and for a server or bucket
// that breaks the promises; CodeUnavailable if the server does not answer (Cause CodeUnauthorized: it
// refuses the credentials; CodeNotFound: it has no such bucket).
func Open(ctx context.Context, cfg Config) (*Bucket, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	// The configuration of the environment may add to the transport (AWS_CA_BUNDLE), so it is handed in
	// to be built on.
	base := awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) { d.Timeout = min(cfg.RequestTimeout, 10*time.Second) })
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithHTTPClient(base)}
	if cfg.Region != "" {
		options = append(options, awsconfig.WithRegion(cfg.Region))
	}
	if cfg.AccessKeyID != "" {
		options = append(options, awsconfig.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(cfg.AccessKeyID, cfg.SecretAccessKey, cfg.SessionToken)))
	}
	loaded, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "the AWS configuration of the environment cannot be read", Err: err}
	}
	if loaded.Region == "" {
		loaded.Region = "us-east-1"
	}
	if built, ok := loaded.HTTPClient.(*awshttp.BuildableClient); ok {
		base = built
	}
	b := &Bucket{cfg: cfg, transport: base.GetTransport()}
	b.transport.MaxIdleConnsPerHost = 2 * cfg.MaxRequests
	b.transport.MaxIdleConns = 4 * cfg.MaxRequests
	b.client = awss3.NewFromConfig(loaded, func(o *awss3.Options) {
		if cfg.Endpoint != "" {
			o.BaseEndpoint = aws.String(cfg.Endpoint)
		}
		o.UsePathStyle = cfg.PathStyle
		o.HTTPClient = &http.Client{Transport: b.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		// A retry inside the SDK would meet its own first try and report "already there". All
		// retries are this package's, which knows how to settle them.
		o.Retryer = aws.NopRetryer{}
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.DisableLogOutputChecksumValidationSkipped = true
	})
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if err := b.probe(ctx); err != nil {
		_ = b.Close()
		return nil, err
	}
	return b, nil
}

// Close ends all requests in flight and gives the connections back. The stores of the bucket answer
// CodeClosed from then on. It is idempotent.
func (b *Bucket) Close() error {
	b.mu.Lock()
	b.cancel()
	b.mu.Unlock()
	b.wg.Wait()
	b.transport.CloseIdleConnections()
	return nil
}

// background runs something that ends with Close. It returns false, and runs nothing, after it.
func (b *Bucket) background(run func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return false
	}
	b.wg.Go(run)
	return true
}

// Objects returns the bucket's durable store.
func (b *Bucket) Objects() *Objects {
	return &Objects{requester: b.requester()}
}

// String says where it is, without credentials.
func (b *Bucket) String() string { return "s3://" + b.cfg.Bucket + "/" + b.cfg.Prefix }

func (b *Bucket) requester() requester {
	return requester{Bucket: b, room: make(chan struct{}, b.cfg.MaxRequests), patience: b.cfg.RequestTimeout}
}

// name returns the bucket's key of something below its prefix.
func (b *Bucket) name(kind, key string) *string { return aws.String(b.cfg.Prefix + kind + key) }

// What there is below the prefix.
const (
	kindObjects  = "objects/"
	kindLeases   = "leases/"
	kindTrail    = "trail/" // what has overflowed from leases/
	kindRenewals = "renewals/"
	kindLogTrail = "renewal-trail/" // what has overflowed from renewals/
	kindProbe    = "probe/"

	kindDeployment = "deployment/"
)
