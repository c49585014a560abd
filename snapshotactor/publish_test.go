package snapshotactor

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestS1_TheManifestComesAfterItsImageAndDescribesIt(t *testing.T) {
	w := newWorld(t)
	a := w.opened(1)
	_, err := a.publish(t, "one")
	require.NoError(t, err)
	b := w.opened(2)
	var puts []string
	w.store.Observe(func(e storetest.Event) {
		if e.Phase == storetest.Took && e.Call.Op == storetest.OpPut {
			puts = append(puts, e.Call.Key)
		}
	})
	image := imageOf(t, "one", "two")
	image.CutAt = time.Date(2026, 11, 29, 12, 0, 0, 123456789, time.FixedZone("here", 3600))
	m, err := b.publisher.Publish(context.Background(), image)
	require.NoError(t, err)
	require.Equal(t, []string{testKey.ImageName(2, 1), testKey.ManifestName(2, 1)}, puts)
	require.Equal(t, image.Bytes, w.get(testKey.ImageName(2, 1)))
	require.NotEmpty(t, m.Nonce)
	require.Equal(t, messages.Manifest{Kind: "manifest", Version: 1, Key: testKey.String(), Epoch: 2, Snapshot: 1, Size: int64(len(image.Bytes)),
		SHA256: m.SHA256, Events: 2, LastSeq: 2, Base: messages.Position{Epoch: 1, Snapshot: 1},
		Began: []messages.Began{{Epoch: 1}, {Epoch: 2, Seq: 1}},
		Time:  time.Date(2026, 11, 29, 11, 0, 0, 123457000, time.UTC), Owner: b.cfg.Owner, Nonce: m.Nonce}, m)
	var stored messages.Manifest
	require.NoError(t, json.Unmarshal(w.get(testKey.ManifestName(2, 1)), &stored))
	require.Equal(t, m, stored)
}

func TestS4_OtherBytesAtTheOwnSlotFenceTheHolder(t *testing.T) {
	for _, suffix := range []string{"snap-000001.db", "snap-000001.json"} {
		t.Run(suffix, func(t *testing.T) {
			w := newWorld(t)
			n := w.opened(1)
			w.store.ConflictNext(suffix, []byte("somebody else's"))
			for range 2 { // it is final
				m, err := n.publish(t, "one")
				require.Zero(t, m)
				require.ErrorIs(t, err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonSlotTaken})
				object(t, testKey.EpochPrefix(1)+suffix, err)
			}
			require.Equal(t, messages.ReasonSlotTaken, n.fence.closedFor())
			require.False(t, n.publisher.Pending())
			require.Zero(t, n.publisher.Published())
		})
	}
}

func TestASnapshotCountsOnlyIfTheFenceIsOpenAfterItsManifest(t *testing.T) {
	w := newWorld(t)
	n := w.opened(1)
	w.store.AfterNext(storetest.OpPut, func(context.Context, storetest.Call, storetest.Result) {
		n.fence.Close(messages.ReasonExpiredLocally)
	})
	m, err := n.publish(t, "one")
	require.ErrorIs(t, err, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonExpiredLocally})
	require.EqualValues(t, 1, m.Snapshot, "it is published all the same")
	require.EqualValues(t, 1, n.publisher.Published())
	n.fence.Close("") // a renewal at the same epoch opens it again (D3)
	m, err = n.publish(t, "one two")
	require.NoError(t, err)
	require.EqualValues(t, 2, m.Snapshot)
}

func TestPublishEndsWithItsContextAndLeavesTheNumberPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node(func(c *Config) {
			c.CallTimeout, c.Backoff, c.MaxBackoff = time.Second, 100*time.Millisecond, time.Second
		})
		require.NoError(t, n.open(1))
		w.store.Freeze()
		ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := n.publisher.Publish(ctx, imageOf(t, "one"))
		code(t, messages.CodeUnavailable, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1500*time.Millisecond, time.Since(start), "one call of 1 s, a pause, and what is left")
		require.True(t, n.publisher.Pending())
		start = time.Now()
		_, err = n.publisher.Settle(context.Background())
		code(t, messages.CodeUnavailable, err)
		require.Equal(t, 4*time.Second+700*time.Millisecond, time.Since(start), "four attempts, and 100, 200 and 400 ms between them")
		w.store.Up()
		m, err := n.publisher.Settle(context.Background())
		require.NoError(t, err)
		require.EqualValues(t, 1, m.Snapshot)
		require.False(t, n.publisher.Pending())
	})
}

func TestPublisherRefusesWhatCanNeverWork(t *testing.T) {
	w := newWorld(t)
	n := w.opened(1)
	_, err := n.publisher.Publish(context.Background(), Image{})
	code(t, messages.CodeInvalidArgument, err)
	_, err = n.publisher.Publish(context.Background(), Image{Bytes: []byte("x"), Events: -1})
	code(t, messages.CodeInvalidArgument, err)
	m, err := n.publisher.Settle(context.Background())
	require.NoError(t, err)
	require.Zero(t, m)
	for name, change := range map[string]func(*Config, *messages.Base){
		"fence": func(c *Config, _ *messages.Base) { c.Fence = nil },
		"owner": func(c *Config, _ *messages.Base) { c.Owner = "" },
		"key":   func(_ *Config, b *messages.Base) { b.Key = "acme/other" },
		"epoch": func(_ *Config, b *messages.Base) { b.Epoch = 0 },
		"seal":  func(_ *Config, b *messages.Base) { b.Kind = messages.KindSeal },
	} {
		cfg, base := n.cfg, n.restored.Base
		change(&cfg, &base)
		_, err := NewPublisher(cfg, Restored{Base: base})
		require.Equal(t, messages.CodeInvalidArgument, messages.CodeOf(err), name)
	}
	// A store that refuses the name for good leaves the number pending, and is not asked again and again.
	asked := 0
	w.store.Every(storetest.OpPut, storetest.Fail(&messages.Error{Code: messages.CodeUnauthorized}))
	w.store.Before(storetest.OpPut, func(context.Context, storetest.Call) { asked++ })
	_, err = n.publish(t, "one")
	code(t, messages.CodeUnauthorized, err)
	require.Equal(t, 1, asked)
	require.True(t, n.publisher.Pending())
}
