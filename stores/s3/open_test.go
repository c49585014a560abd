package s3_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
)

func TestOpenRefusesAServerThatIgnoresConditions(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	for _, header := range []string{"If-None-Match", "If-Match"} {
		t.Run(header, func(t *testing.T) {
			proxy := s3test.NewProxy(t, server)
			proxy.Strip(header)
			_, err := s3.Open(t.Context(), config(proxy.Endpoint))
			require.ErrorIs(t, err, messages.ErrInvalidArgument)
			require.ErrorContains(t, err, "ignores conditional writes")
		})
	}
	t.Run("the probe leaves nothing", func(t *testing.T) {
		open(t, config(server.Endpoint))
		out, err := server.Client().ListObjectsV2(t.Context(), &awss3.ListObjectsV2Input{Bucket: aws.String(s3test.Bucket)})
		require.NoError(t, err)
		require.Empty(t, out.Contents)
		require.Zero(t, uploads(t, server))
	})
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	for name, tt := range map[string]struct {
		change func(*s3.Config)
		want   error
	}{
		"no bucket":          {func(c *s3.Config) { c.Bucket = "" }, messages.ErrInvalidArgument},
		"prefix, no slash":   {func(c *s3.Config) { c.Prefix = "x" }, messages.ErrInvalidArgument},
		"prefix upwards":     {func(c *s3.Config) { c.Prefix = "../" }, messages.ErrInvalidArgument},
		"prefix too long":    {func(c *s3.Config) { c.Prefix = strings.Repeat("x", 100) + "/" }, messages.ErrInvalidArgument},
		"endpoint":           {func(c *s3.Config) { c.Endpoint = "ftp://x" }, messages.ErrInvalidArgument},
		"half a credential":  {func(c *s3.Config) { c.SecretAccessKey = "" }, messages.ErrInvalidArgument},
		"encryption":         {func(c *s3.Config) { c.SSE = "rot13" }, messages.ErrInvalidArgument},
		"key without kms":    {func(c *s3.Config) { c.SSE, c.KMSKeyID = "AES256", "k" }, messages.ErrInvalidArgument},
		"negative":           {func(c *s3.Config) { c.PartSize = -1 }, messages.ErrInvalidArgument},
		"unknown bucket":     {func(c *s3.Config) { c.Bucket = "no-such-bucket" }, messages.ErrNotFound},
		"wrong secret":       {func(c *s3.Config) { c.SecretAccessKey = "wrong" }, messages.ErrUnauthorized},
		"nobody is there":    {func(c *s3.Config) { c.Endpoint, c.Attempts = "http://127.0.0.1:1", 1 }, messages.ErrUnavailable},
		"a bucket elsewhere": {func(c *s3.Config) { c.Bucket = "Not_A_Bucket" }, messages.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(server.Endpoint)
			tt.change(&cfg)
			_, err := s3.Open(t.Context(), cfg)
			require.ErrorIs(t, err, tt.want)
		})
	}
}

// Where old versions are kept, what is forgotten is not gone.
func TestS6_OpenRefusesABucketThatKeepsOldVersions(t *testing.T) {
	t.Parallel()
	cfg := config(s3test.StartVersioned(t).Endpoint)
	_, err := s3.Open(t.Context(), cfg)
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	cfg.AllowVersioning = true
	objects := open(t, cfg).Objects()
	created, err := objects.PutIfAbsent(t.Context(), "a", []byte("x"))
	require.NoError(t, err)
	require.True(t, created)
}

// Every write asks for the encryption. This server does not encrypt: what is sent is what can be looked at.
func TestEveryWriteAsksForItsEncryption(t *testing.T) {
	t.Parallel()
	b, proxy, _ := proxied(t, func(c *s3.Config) { c.SSE, c.KMSKeyID, c.PartSize = "aws:kms", "some-key", partSize })
	_, err := b.Objects().PutIfAbsent(t.Context(), "small", []byte("x"))
	require.NoError(t, err)
	_, err = b.Objects().PutIfAbsent(t.Context(), "large", large(1))
	require.NoError(t, err)
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	_, err = leases.Acquire(t.Context(), key1, "a", messages.MinTTL)
	require.NoError(t, err)
	begun := 0
	for _, r := range proxy.Requests() {
		query := r.URL.Query()
		if r.Method == http.MethodPut && !query.Has("partNumber") || query.Has("uploads") {
			begun++
			require.Equal(t, "aws:kms", r.Header.Get("X-Amz-Server-Side-Encryption"), "%s %s", r.Method, r.URL)
			require.Equal(t, "some-key", r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"))
		}
	}
	require.Greater(t, begun, 6)
}
