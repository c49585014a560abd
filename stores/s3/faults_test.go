package s3_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
)

func isPut(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/objects/")
}

// proxied opens a bucket through a proxy.
func proxied(t *testing.T, change func(*s3.Config)) (*s3.Bucket, *s3test.Proxy, *s3test.Server) {
	t.Helper()
	server := s3test.Start(t)
	proxy := s3test.NewProxy(t, server)
	cfg := config(proxy.Endpoint)
	if change != nil {
		change(&cfg)
	}
	return open(t, cfg), proxy, server
}

func TestS10_LostAnswersOfAPutAreSettledByReadingBack(t *testing.T) {
	t.Parallel()
	b, proxy, _ := proxied(t, func(c *s3.Config) { c.Attempts = 2 })
	objects := b.Objects()
	put := func(key, text string) (bool, error) { return objects.PutIfAbsent(t.Context(), key, []byte(text)) }

	proxy.Next(s3test.LoseAnswer, isPut)
	created, err := put("lost-answer", "mine")
	require.NoError(t, err)
	require.True(t, created, "the second try met the first, which was this call's own")

	proxy.Next(s3test.LoseAsked, isPut)
	created, err = put("lost-asked", "mine")
	require.NoError(t, err)
	require.True(t, created)

	proxy.Next(s3test.Refuse, isPut)
	created, err = put("slow-down", "mine")
	require.NoError(t, err)
	require.True(t, created)

	// The same bytes of somebody else are not this call's own.
	proxy.Decide(func(r *http.Request) s3test.Fate {
		if !isPut(r) {
			return s3test.Pass
		}
		proxy.Decide(nil)
		created, err := put("taken-meanwhile", "mine")
		require.NoError(t, err)
		require.True(t, created)
		return s3test.LoseAsked
	})
	created, err = put("taken-meanwhile", "mine")
	require.NoError(t, err)
	require.False(t, created)

	// All tries took effect or not, and nothing can be read back: no guess.
	for name, fate := range map[string]s3test.Fate{"answers": s3test.LoseAnswer, "asked": s3test.LoseAsked} {
		proxy.Decide(func(r *http.Request) s3test.Fate {
			if isPut(r) {
				return fate
			}
			return s3test.LoseAsked
		})
		created, err = put("cut-"+name, "mine")
		require.ErrorIs(t, err, messages.ErrUnavailable)
		require.False(t, created)
	}
	// Nothing there to read back proves nothing either: the put may be on its way.
	proxy.Decide(func(r *http.Request) s3test.Fate {
		if isPut(r) {
			return s3test.LoseAsked
		}
		return s3test.Pass
	})
	_, err = put("never-arrived", "mine")
	require.ErrorIs(t, err, messages.ErrUnavailable)
	// But what can be read back is proof, even if every answer was lost.
	proxy.Decide(func(r *http.Request) s3test.Fate {
		if isPut(r) {
			return s3test.LoseAnswer
		}
		return s3test.Pass
	})
	created, err = put("all-answers-lost", "mine")
	require.NoError(t, err)
	require.True(t, created)

	proxy.Decide(nil)
	keys, err := objects.List(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []string{"all-answers-lost", "cut-answers", "lost-answer", "lost-asked", "slow-down", "taken-meanwhile"}, keys)
}

func TestS10_LostAnswersOfDeletes(t *testing.T) {
	t.Parallel()
	b, proxy, _ := proxied(t, func(c *s3.Config) { c.Attempts = 2 })
	objects := b.Objects()
	for _, key := range []string{"a/1", "a/2", "a/3"} {
		_, err := objects.PutIfAbsent(t.Context(), key, []byte(key))
		require.NoError(t, err)
	}
	proxy.Next(s3test.LoseAnswer, func(r *http.Request) bool { return r.Method == http.MethodDelete })
	deleted, err := objects.Delete(t.Context(), "a/1")
	require.NoError(t, err)
	require.True(t, deleted)
	proxy.Next(s3test.LoseAnswer, func(r *http.Request) bool { return r.Method == http.MethodPost })
	count, err := objects.DeletePrefix(t.Context(), "a/")
	require.NoError(t, err)
	require.Equal(t, 2, count)

	// It was never seen, so it was not deleted, whatever else is lost.
	var looks atomic.Int32
	proxy.Decide(func(r *http.Request) s3test.Fate {
		if r.Method == http.MethodHead && looks.Add(1) <= 2 {
			return s3test.Refuse
		}
		return s3test.Pass
	})
	deleted, err = objects.Delete(t.Context(), "a/never")
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.False(t, deleted)
}

const partSize = 5 << 20

func large(seed byte) []byte {
	data := make([]byte, 20<<20+17)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data) // never fails
	return data
}

func uploads(t *testing.T, server *s3test.Server) int {
	t.Helper()
	out, err := server.Client().ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: aws.String(s3test.Bucket)})
	require.NoError(t, err)
	return len(out.Uploads)
}

func TestF3_LargeImagesGoInParts(t *testing.T) {
	t.Parallel()
	b, proxy, server := proxied(t, func(c *s3.Config) { c.PartSize, c.Attempts = partSize, 2 })
	objects := b.Objects()
	posts := func(query string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has(query) }
	}

	var wg sync.WaitGroup
	var created [2]bool
	var errs [2]error
	for i := range created {
		wg.Go(func() { created[i], errs[i] = objects.PutIfAbsent(t.Context(), "image", large(byte(i))) })
	}
	wg.Wait()
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	require.True(t, created[0] != created[1], "one of two creates it")
	winner := byte(0)
	if created[1] {
		winner = 1
	}
	got, ok, err := objects.Get(t.Context(), "image", 1<<30)
	require.NoError(t, err)
	require.True(t, ok)
	require.True(t, bytes.Equal(got, large(winner)))
	require.Zero(t, uploads(t, server), "the loser's parts are gone")

	// An object that exists costs no upload.
	proxy.Requests()
	again, err := objects.PutIfAbsent(t.Context(), "image", large(2))
	require.NoError(t, err)
	require.False(t, again)
	require.Len(t, proxy.Requests(), 1)

	// S10: the completion took effect, and its answer was lost.
	proxy.Next(s3test.LoseAnswer, posts("uploadId"))
	mine, err := objects.PutIfAbsent(t.Context(), "lost", large(3))
	require.NoError(t, err)
	require.True(t, mine)
	got, _, err = objects.Get(t.Context(), "lost", 1<<30)
	require.NoError(t, err)
	require.True(t, bytes.Equal(got, large(3)))

	// The same, and the server has forgotten the upload when it is asked again.
	var completions atomic.Int32
	proxy.Decide(func(r *http.Request) s3test.Fate {
		if !posts("uploadId")(r) {
			return s3test.Pass
		}
		if completions.Add(1) == 1 {
			return s3test.LoseAnswer
		}
		return s3test.Gone
	})
	mine, err = objects.PutIfAbsent(t.Context(), "lost-and-gone", large(3))
	require.NoError(t, err)
	require.True(t, mine)

	// A part that cannot be sent: nothing appears, and nothing is left.
	proxy.Decide(func(r *http.Request) s3test.Fate {
		if r.Method == http.MethodPut && r.URL.Query().Get("partNumber") == "3" {
			return s3test.Refuse
		}
		return s3test.Pass
	})
	_, err = objects.PutIfAbsent(t.Context(), "half", large(4))
	require.ErrorIs(t, err, messages.ErrUnavailable)
	proxy.Decide(nil)
	_, ok, err = objects.Get(t.Context(), "half", 1<<30)
	require.NoError(t, err)
	require.False(t, ok)
	require.Zero(t, uploads(t, server))
}

func TestLeftoversOfDeadProcessesAreAborted(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	objects := open(t, config(server.Endpoint)).Objects()
	for _, key := range []string{"objects/dead", "elsewhere/none-of-ours"} {
		_, err := server.Client().CreateMultipartUpload(t.Context(), &awss3.CreateMultipartUploadInput{Bucket: aws.String(s3test.Bucket), Key: aws.String(key)})
		require.NoError(t, err)
	}
	count, err := objects.AbortLeftovers(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Zero(t, count, "it may be alive")
	_, err = objects.AbortLeftovers(t.Context(), -1)
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	// The Date of this server may be a second behind.
	require.Eventually(t, func() bool {
		n, err := objects.AbortLeftovers(t.Context(), 0)
		count += n
		return err == nil && count == 1
	}, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, 1, uploads(t, server))
}

// A server that hangs: the caller's deadline is kept. Then it goes on.
func TestFrozenServerIsUnavailable(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	b := open(t, config(server.Endpoint))
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	_, err = leases.Acquire(t.Context(), key1, "a", time.Hour)
	require.NoError(t, err)

	server.Freeze(t)
	short := func(do func(context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := do(ctx)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	short(func(ctx context.Context) error { _, err := leases.Renew(ctx, key1, "a", 1, time.Hour); return err })
	short(func(ctx context.Context) error { _, err := leases.Acquire(ctx, key1, "b", time.Hour); return err })
	short(func(ctx context.Context) error { _, _, err := b.Objects().Get(ctx, "x", 1<<30); return err })
	short(func(ctx context.Context) error { _, err := b.Objects().PutIfAbsent(ctx, "x", nil); return err })
	server.Thaw(t)
	lease, err := leases.Renew(t.Context(), key1, "a", 1, time.Hour)
	require.NoError(t, err)
	require.Equal(t, uint64(1), lease.Epoch)
}

// A hang without a deadline of the caller's ends with the bucket's own, and Close ends it at once.
func TestFrozenServerAndNoDeadline(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	cfg := config(server.Endpoint)
	cfg.RequestTimeout, cfg.Attempts = 700*time.Millisecond, 1
	impatient := open(t, cfg)
	patient := open(t, config(server.Endpoint))
	server.Freeze(t)
	_, err := impatient.Objects().List(t.Context(), "")
	require.ErrorIs(t, err, messages.ErrUnavailable)
	_, _, err = impatient.Objects().Get(t.Context(), "x", 1<<30)
	require.ErrorIs(t, err, messages.ErrUnavailable)
	hung := make(chan error, 1)
	go func() { _, err := patient.Objects().List(t.Context(), ""); hung <- err }()
	require.NoError(t, patient.Close())
	require.ErrorIs(t, <-hung, messages.ErrClosed)
	server.Thaw(t)
	_, err = patient.Objects().List(t.Context(), "")
	require.ErrorIs(t, err, messages.ErrClosed)
}

func TestKilledServerComesBack(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	cfg := config(server.Endpoint)
	cfg.Attempts = 2
	b := open(t, cfg)
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	_, err = leases.Acquire(t.Context(), key1, "a", time.Minute)
	require.NoError(t, err)
	_, err = b.Objects().PutIfAbsent(t.Context(), "x", []byte("kept"))
	require.NoError(t, err)
	server.Kill(t)
	_, err = leases.Renew(t.Context(), key1, "a", 1, time.Minute)
	require.ErrorIs(t, err, messages.ErrUnavailable)
	_, err = b.Objects().PutIfAbsent(t.Context(), "y", nil)
	require.ErrorIs(t, err, messages.ErrUnavailable)
	server.Restart(t)
	_, err = leases.Renew(t.Context(), key1, "a", 1, time.Minute)
	require.NoError(t, err)
	data, _, err := b.Objects().Get(t.Context(), "x", 1<<30)
	require.NoError(t, err)
	require.Equal(t, "kept", string(data))
}
