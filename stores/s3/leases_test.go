package s3_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
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

func isLeasePut(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/leases/")
}

func ops(t *testing.T, leases *s3.Leases, key messages.Key) []string {
	t.Helper()
	trail, err := leases.History(t.Context(), key)
	require.NoError(t, err)
	var out []string
	for _, e := range trail {
		out = append(out, fmt.Sprintf("%s %s %d %d", e.Op, e.Owner, e.Epoch, e.Floor))
	}
	return out
}

func TestS10_LostAnswersOfLeaseWritesAreSettled(t *testing.T) {
	b, proxy, _ := proxied(t, func(c *s3.Config) { c.Attempts = 2 })
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	for _, fate := range []s3test.Fate{s3test.LoseAnswer, s3test.LoseAsked, s3test.Refuse} {
		t.Run(fmt.Sprint(fate), func(t *testing.T) {
			key := messages.Key{Org: "acme", Tenant: messages.TenantID(fmt.Sprintf("t-%032x", fate))}
			proxy.Next(fate, isLeasePut)
			lease, err := leases.Acquire(t.Context(), key, "a", time.Minute)
			require.NoError(t, err)
			require.Equal(t, uint64(1), lease.Epoch)
			proxy.Next(fate, isLeasePut)
			_, err = leases.Renew(t.Context(), key, "a", 1, time.Minute)
			require.NoError(t, err)
			proxy.Next(fate, isLeasePut)
			require.NoError(t, leases.MarkForgotten(t.Context(), key, "a", 1))
			proxy.Next(fate, isLeasePut)
			require.NoError(t, leases.Release(t.Context(), key, "a", 1))
			require.Equal(t, []string{"acquire a 1 0", "renew a 1 0", "forget a 1 1", "release a 1 1"}, ops(t, leases, key), "each once")
		})
	}
	t.Run("nothing can be read back", func(t *testing.T) {
		var sent atomic.Bool
		proxy.Decide(func(r *http.Request) s3test.Fate {
			switch {
			case isLeasePut(r):
				sent.Store(true)
				return s3test.LoseAnswer
			case sent.Load():
				return s3test.LoseAsked
			}
			return s3test.Pass
		})
		_, err := leases.Acquire(t.Context(), key1, "a", time.Minute)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		proxy.Decide(nil)
		lease, ok, err := leases.Read(t.Context(), key1)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "a", lease.Owner, "it had taken effect")
		_, err = leases.Renew(t.Context(), key1, "a", 1, time.Minute)
		require.NoError(t, err, "adopted by renewing")
	})
}

// What a renewal costs.
func TestARenewalIsOneRequest(t *testing.T) {
	b, proxy, _ := proxied(t, nil)
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	_, err = leases.Acquire(t.Context(), key1, "a", time.Minute)
	require.NoError(t, err)
	proxy.Requests()
	const renewals = 48
	for range renewals {
		_, err := leases.Renew(t.Context(), key1, "a", 1, time.Minute)
		require.NoError(t, err)
	}
	require.Len(t, proxy.Requests(), renewals+2, "and one for each 16 entries that overflow")
}

// Leases are renewed in parallel, but never more than MaxRequests at once.
func TestRenewalsInParallelAreBounded(t *testing.T) {
	b, proxy, _ := proxied(t, func(c *s3.Config) { c.MaxRequests = 4 })
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	var flying, most atomic.Int32
	full := make(chan struct{})
	proxy.Decide(func(*http.Request) s3test.Fate {
		n := flying.Add(1)
		defer flying.Add(-1)
		if n == 4 && most.Load() < 4 {
			most.Store(4)
			close(full)
		}
		<-full // until as many as may are in flight
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return s3test.Pass
	})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, err := leases.Acquire(t.Context(), messages.Key{Org: "acme", Tenant: messages.TenantID(fmt.Sprintf("t-%032x", i))}, "a", time.Minute)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int32(4), most.Load())
}

func TestB4_TheTrailIsWholeBeyondTheRecord(t *testing.T) {
	server := s3test.Start(t)
	a := openLeases(t, config(server.Endpoint), s3.LeaseConfig{})
	b := openLeases(t, config(server.Endpoint), s3.LeaseConfig{})
	var want []string
	for epoch := uint64(1); epoch <= 12; epoch++ {
		leases, owner := a, "a"
		if epoch%2 == 0 {
			leases, owner = b, "b"
		}
		lease, err := leases.Acquire(t.Context(), key1, owner, time.Minute)
		require.NoError(t, err)
		require.Equal(t, epoch, lease.Epoch)
		want = append(want, fmt.Sprintf("acquire %s %d 0", owner, epoch))
		for range 5 {
			_, err := leases.Renew(t.Context(), key1, owner, epoch, time.Minute)
			require.NoError(t, err)
			want = append(want, fmt.Sprintf("renew %s %d 0", owner, epoch))
		}
		require.NoError(t, leases.Release(t.Context(), key1, owner, epoch))
		want = append(want, fmt.Sprintf("release %s %d 0", owner, epoch))
	}
	require.Equal(t, want, ops(t, a, key1))
	data, err := os.ReadFile(server.Path("leases/" + key1.String()))
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(data), `"op"`), 32, "the record does not grow")

	// An expired overflow object makes the trail begin later; one missing in the middle is damage.
	folder := server.Path("trail/" + key1.String())
	chunks, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, chunks, 4)
	require.NoError(t, os.Remove(filepath.Join(folder, chunks[0].Name())))
	require.Equal(t, want[16:], ops(t, b, key1))
	require.NoError(t, os.Remove(filepath.Join(folder, chunks[2].Name())))
	_, err = a.History(t.Context(), key1)
	require.ErrorIs(t, err, messages.ErrCorrupt)
}

// S3 refuses nothing by itself. What another program breaks is found, and nothing is granted on top of it.
func TestB3_ARecordThatBreaksTheRulesIsRefused(t *testing.T) {
	server := s3test.Start(t)
	leases := openLeases(t, config(server.Endpoint), s3.LeaseConfig{})
	for epoch := uint64(1); epoch <= 12; epoch++ { // with forgets and releases: 36 entries
		_, err := leases.Acquire(t.Context(), key1, "a", time.Minute)
		require.NoError(t, err)
		require.NoError(t, leases.MarkForgotten(t.Context(), key1, "a", epoch))
		require.NoError(t, leases.Release(t.Context(), key1, "a", epoch))
	}
	name, client := aws.String("leases/"+key1.String()), server.Client()
	out, err := client.GetObject(t.Context(), &awss3.GetObjectInput{Bucket: aws.String(s3test.Bucket), Key: name})
	require.NoError(t, err)
	good, err := io.ReadAll(out.Body)
	require.NoError(t, err)
	put := func(data []byte) {
		_, err := client.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: aws.String(s3test.Bucket), Key: name, Body: bytes.NewReader(data)})
		require.NoError(t, err)
	}
	type doc = map[string]any
	edit := func(change func(doc, doc)) []byte {
		var d doc
		require.NoError(t, json.Unmarshal(good, &d))
		trail := d["trail"].([]any)
		change(d, trail[len(trail)-1].(doc))
		data, err := json.Marshal(d)
		require.NoError(t, err)
		return data
	}
	for what, data := range map[string][]byte{
		"epoch goes back":     edit(func(_, e doc) { e["epoch"] = 11 }),
		"epoch moves by two":  edit(func(_, e doc) { e["epoch"], e["op"] = 14, "acquire" }),
		"floor goes down":     edit(func(_, e doc) { e["floor"] = 3 }),
		"floor above epoch":   edit(func(_, e doc) { e["floor"], e["op"] = 13, "forget" }),
		"owner changes":       edit(func(_, e doc) { e["owner"] = "z" }),
		"an entry is missing": edit(func(d, _ doc) { d["trail"] = append(d["trail"].([]any)[:3], d["trail"].([]any)[4:]...) }),
		"unknown operation":   edit(func(_, e doc) { e["op"] = "steal" }),
		"in the past":         edit(func(_, e doc) { e["at_ms"] = 1 }),
		"negative span":       edit(func(d, _ doc) { d["span_ms"] = -1 }),
		"no entries":          edit(func(d, _ doc) { d["trail"] = []any{} }),
		"another key":         edit(func(d, _ doc) { d["key"] = "x/y" }),
		"another format":      edit(func(d, _ doc) { d["v"] = 2 }),
		"cut off":             good[:len(good)/2],
		"empty":               nil,
	} {
		t.Run(what, func(t *testing.T) {
			put(data)
			_, err := leases.Acquire(t.Context(), key1, "b", time.Minute)
			require.ErrorIs(t, err, messages.ErrCorrupt)
			_, _, err = leases.Read(t.Context(), key1)
			require.ErrorIs(t, err, messages.ErrCorrupt)
		})
	}
	t.Run("deleted", func(t *testing.T) {
		_, err := client.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: aws.String(s3test.Bucket), Key: name})
		require.NoError(t, err)
		_, err = leases.Acquire(t.Context(), key1, "b", time.Minute)
		require.ErrorIs(t, err, messages.ErrCorrupt, "epoch 1 again would break everything")
		_, err = leases.History(t.Context(), key1)
		require.ErrorIs(t, err, messages.ErrCorrupt)
	})
	// Put right, it is usable.
	put(good)
	lease, err := leases.Acquire(t.Context(), key1, "b", time.Minute)
	require.NoError(t, err)
	require.Equal(t, uint64(13), lease.Epoch)
	require.Equal(t, uint64(12), lease.Floor)
}

// Many contenders, two stores, and a network that loses a third of what is sent: every epoch is granted once.
func TestB4_ContendersOverALossyNetwork(t *testing.T) {
	server := s3test.Start(t)
	proxy := s3test.NewProxy(t, server)
	cfg := config(proxy.Endpoint)
	cfg.Attempts = 3
	all := []*s3.Leases{openLeases(t, cfg, s3.LeaseConfig{}), openLeases(t, cfg, s3.LeaseConfig{})}
	var mu sync.Mutex
	chance := rand.New(rand.NewPCG(1, 2))
	proxy.Decide(func(*http.Request) s3test.Fate {
		mu.Lock()
		defer mu.Unlock()
		switch chance.IntN(6) {
		case 0:
			return s3test.LoseAnswer
		case 1:
			return s3test.LoseAsked
		}
		return s3test.Pass
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	granted := map[uint64]string{}
	unknown := 0
	var wg sync.WaitGroup
	for i := range 4 {
		owner := fmt.Sprintf("owner-%d", i)
		leases := all[i%2]
		wg.Go(func() {
			for range 25 {
				lease, err := leases.Acquire(ctx, key1, owner, messages.MinTTL)
				if err == nil {
					mu.Lock()
					if other, twice := granted[lease.Epoch]; twice {
						t.Errorf("epoch %d was granted to %s and to %s", lease.Epoch, other, owner)
					}
					granted[lease.Epoch] = owner
					mu.Unlock()
					err = leases.Release(ctx, key1, owner, lease.Epoch)
				}
				switch messages.CodeOf(err) {
				case "", messages.CodeHeld, messages.CodeLost:
				case messages.CodeUnavailable:
					mu.Lock()
					unknown++
					mu.Unlock()
				default:
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, ctx.Err())
	proxy.Decide(nil)
	trail, err := all[0].History(t.Context(), key1)
	require.NoError(t, err)
	epoch := uint64(0)
	for _, e := range trail {
		if e.Op == messages.OpAcquire {
			epoch++
			require.Equal(t, epoch, e.Epoch)
			if owner, told := granted[epoch]; told {
				require.Equal(t, owner, e.Owner)
				delete(granted, epoch)
			}
		}
	}
	require.Empty(t, granted, "a grant that was told of is not in the trail")
	require.Greater(t, epoch, uint64(5))
	t.Logf("%d epochs, %d operations without a certain answer", epoch, unknown)
}
