package s3_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestB4_TheTrailIsWholeBeyondTheRecord(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	a := openLeases(t, config(server.Endpoint), s3.LeaseConfig{})
	b := openLeases(t, config(server.Endpoint), s3.LeaseConfig{})
	var want []string
	for epoch := uint64(1); epoch <= 24; epoch++ {
		leases, owner := a, "a"
		if epoch%2 == 0 {
			leases, owner = b, "b"
		}
		lease, err := leases.Acquire(t.Context(), key1, owner, time.Minute)
		require.NoError(t, err)
		require.Equal(t, epoch, lease.Epoch)
		want = append(want, fmt.Sprintf("acquire %s %d 0", owner, epoch))
		for n := range 5 { // each ttl is another: these go by the record, and the one after by the renewal log
			_, err := leases.Renew(t.Context(), key1, owner, epoch, time.Minute-time.Duration(n/2)*time.Second)
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
	require.Equal(t, want[4*7:], ops(t, b, key1), "four entries of each epoch were in the record")
	require.NoError(t, os.Remove(filepath.Join(folder, chunks[2].Name())))
	_, err = a.History(t.Context(), key1)
	require.ErrorIs(t, err, messages.ErrCorrupt)
}

// The same for the trail of a renewal log.
func TestB4_TheTrailIsWholeBeyondTheRenewalLog(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	leases := openLeases(t, config(server.Endpoint), s3.LeaseConfig{})
	_, err := leases.Acquire(t.Context(), key1, "a", time.Minute)
	require.NoError(t, err)
	const renewals = 330
	for range renewals {
		_, err := leases.Renew(t.Context(), key1, "a", 1, time.Minute)
		require.NoError(t, err)
	}
	require.Len(t, ops(t, leases, key1), 1+renewals)
	logs, err := filepath.Glob(server.Path("renewals/*"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	data, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(data), `"nonce"`), 128, "the log does not grow")
	chunks, err := filepath.Glob(server.Path("renewal-trail/*/*"))
	require.NoError(t, err)
	require.Len(t, chunks, 4)

	// A log that joins late reads only what it needs.
	late := storetest.NewKey()
	_, err = leases.Acquire(t.Context(), late, "a", time.Minute)
	require.NoError(t, err)
	_, err = leases.Renew(t.Context(), late, "a", 1, time.Minute)
	require.NoError(t, err)
	require.NoError(t, os.Remove(chunks[0]))
	require.Len(t, ops(t, leases, key1), 1+renewals-63, "the first version of the log renewed nothing")
	require.NoError(t, os.Remove(chunks[2]))
	_, err = leases.History(t.Context(), key1)
	require.ErrorIs(t, err, messages.ErrCorrupt)
	require.Len(t, ops(t, leases, late), 2)
	_, err = leases.Renew(t.Context(), key1, "a", 1, time.Minute)
	require.NoError(t, err, "the trail decides nothing")
}

// S3 refuses nothing by itself. What another program breaks is found, and nothing is granted on top of it.
func TestB3_ARecordThatBreaksTheRulesIsRefused(t *testing.T) {
	t.Parallel()
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
		"another format":      edit(func(d, _ doc) { d["v"] = 3 }),
		"half a log":          edit(func(_, e doc) { e["log"] = "x" }),
		"a log elsewhere":     edit(func(_, e doc) { e["log"], e["member"] = "../objects/x", 1 }),
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
