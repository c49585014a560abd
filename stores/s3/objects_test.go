package s3_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
)

func TestF3_GetVerifiesTheBytes(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	objects := open(t, config(server.Endpoint)).Objects()
	_, err := objects.PutIfAbsent(t.Context(), "a/image", []byte("the right bytes"))
	require.NoError(t, err)
	file := server.Path("objects/a/image")
	require.NoError(t, os.WriteFile(file, []byte("the wrong bytes"), 0o600))
	_, _, err = objects.Get(t.Context(), "a/image", 1<<30)
	require.ErrorIs(t, err, messages.ErrCorrupt)
	require.Equal(t, "a/image", messages.AsError(err).Object)

	// What another tool put has no sum of ours.
	_, err = server.Client().PutObject(t.Context(), &awss3.PutObjectInput{Bucket: aws.String(s3test.Bucket), Key: aws.String("objects/a/foreign"),
		Body: strings.NewReader("copied")})
	require.NoError(t, err)
	data, ok, err := objects.Get(t.Context(), "a/foreign", 1<<30)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "copied", string(data))
}

// More than two pages of a list, and more than two batches of a delete. Two thousand puts would take
// long, so the files are laid into the server's folder.
func TestF5_ManyPagesAndBatches(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	b, proxy := open(t, config(server.Endpoint)), s3test.NewProxy(t, server)
	folder := server.Path("objects/acme")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "e1"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "e1-more"), 0o700))
	var want []string
	for i := range 2100 {
		key := fmt.Sprintf("acme/e1/%06d", i)
		want = append(want, key)
		require.NoError(t, os.WriteFile(server.Path("objects/"+key), nil, 0o600))
	}
	require.NoError(t, os.WriteFile(server.Path("objects/acme/e1-more/x"), nil, 0o600))
	got, err := b.Objects().List(t.Context(), "acme/e1/")
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = b.Objects().List(t.Context(), "acme/e1")
	require.NoError(t, err)
	require.Len(t, got, len(want)+1)
	require.True(t, slices.IsSorted(got))

	// The second batch's answer is lost: nothing is counted twice.
	lossy := open(t, config(proxy.Endpoint))
	var posts atomic.Int32
	proxy.Next(s3test.LoseAnswer, func(r *http.Request) bool { return r.Method == http.MethodPost && posts.Add(1) == 2 })
	count, err := lossy.Objects().DeletePrefix(t.Context(), "acme/e1/")
	require.NoError(t, err)
	require.Equal(t, len(want), count)
	require.Equal(t, int32(4), posts.Load(), "three batches, and one of them twice")
	got, err = b.Objects().List(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []string{"acme/e1-more/x"}, got)
}

// Two deployments in one bucket, and the stores of one, do not see each other.
func TestF8_PrefixesAndStoresAreApart(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	one, two := config(server.Endpoint), config(server.Endpoint)
	one.Prefix, two.Prefix = "one/", "two/"
	b := open(t, one)
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	_, err = leases.Acquire(t.Context(), key1, "a", messages.MaxTTL)
	require.NoError(t, err)
	_, err = b.Objects().PutIfAbsent(t.Context(), "acme/x", []byte("1"))
	require.NoError(t, err)

	other := open(t, two)
	keys, err := other.Objects().List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, keys)
	n, err := other.Objects().DeletePrefix(t.Context(), "acme/")
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = b.Objects().DeletePrefix(t.Context(), "acme/")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, ok, err := leases.Read(t.Context(), key1)
	require.NoError(t, err)
	require.True(t, ok, "no object key reaches a lease")
}

// Of several deletes of one object at once, at least one says that it was there, and none fails.
func TestF5_SeveralDeletesAtOnce(t *testing.T) {
	t.Parallel()
	objects := open(t, config(s3test.Start(t).Endpoint)).Objects()
	for round := range 5 {
		key := fmt.Sprintf("a/%d", round)
		_, err := objects.PutIfAbsent(t.Context(), key, []byte(key))
		require.NoError(t, err)
		var told atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				deleted, err := objects.Delete(t.Context(), key)
				if err != nil {
					t.Error(err)
				}
				if deleted {
					told.Add(1)
				}
			})
		}
		wg.Wait()
		require.Positive(t, told.Load())
		_, ok, err := objects.Get(t.Context(), key, 1<<30)
		require.NoError(t, err)
		require.False(t, ok)
	}
}
