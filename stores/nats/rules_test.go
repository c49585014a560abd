package nats_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/storetest"
)

// seed makes a record at epoch 3, floor 2, held by owner c.
func seed(t *testing.T, store *nats.Leases, key messages.Key) messages.Lease {
	t.Helper()
	for i, owner := range []string{"a", "b", "c"} {
		lease, err := store.Acquire(t.Context(), key, owner, time.Hour)
		require.NoError(t, err)
		if i == 1 {
			require.NoError(t, store.MarkForgotten(t.Context(), key, owner, lease.Epoch))
		}
		if i < 2 {
			require.NoError(t, store.Release(t.Context(), key, owner, lease.Epoch))
		}
	}
	lease, err := store.Renew(t.Context(), key, "c", 3, time.Hour)
	require.NoError(t, err)
	return lease
}

// forged is a proposal as this package writes it, upon a record that never was.
func forged(op string, epoch, floor uint64, end int64) string {
	data, _ := json.Marshal(map[string]any{"v": 1, "op": op, "owner": "z", "epoch": epoch, "ttl": time.Hour, "nonce": "n",
		"prev": map[string]any{"owner": "z", "epoch": epoch, "ttl": time.Hour, "end": end, "floor": floor, "at": 1}})
	return string(data)
}

// What the engine itself refuses, and what it stores but nobody takes for a record.
func TestB3_TheEngineRefusesWhatBreaksTheProtocol(t *testing.T) {
	on(t, func(t *testing.T, k kind) {
		cfg := k.config(t)
		store, key := openLeases(t, cfg), storetest.NewKey()
		lease := seed(t, store, key)
		trail, err := store.History(t.Context(), key)
		require.NoError(t, err)
		stream := "KV_" + cfg.Cluster + "-leases"
		grant := fmt.Sprintf("$KV.%s-leases.lease.%s.%s.grant", cfg.Cluster, key.Org, key.Tenant)
		renew := strings.TrimSuffix(grant, "grant") + "renew"
		nc := dial(t, cfg.URL)
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		raw, err := js.Stream(t.Context(), stream)
		require.NoError(t, err)
		last, err := raw.GetLastMsgForSubject(t.Context(), renew)
		require.NoError(t, err)
		first, err := raw.GetLastMsgForSubject(t.Context(), grant)
		require.NoError(t, err)
		intact := func(t *testing.T) {
			t.Helper()
			for _, s := range []*nats.Leases{store, openLeases(t, cfg)} {
				got, ok, err := s.Read(t.Context(), key)
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, lease, got)
				_, err = s.Acquire(t.Context(), key, "z", time.Hour)
				require.ErrorIs(t, err, messages.ErrHeld)
				now, err := s.History(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, trail, now)
			}
		}
		publish := func(subject, data string, header natsgo.Header) error {
			_, err := js.PublishMsg(t.Context(), &natsgo.Msg{Subject: subject, Data: []byte(data), Header: header}, jetstream.WithRetryAttempts(0))
			return err
		}
		for name, attack := range map[string]func() error{
			"a record is deleted":          func() error { return raw.DeleteMsg(t.Context(), last.Sequence) },
			"a record is erased":           func() error { return raw.SecureDeleteMsg(t.Context(), last.Sequence) },
			"the key is purged":            func() error { return raw.Purge(t.Context(), jetstream.WithPurgeSubject(grant)) },
			"everything is purged":         func() error { return raw.Purge(t.Context()) },
			"a rollup replaces the key":    func() error { return publish(grant, "x", natsgo.Header{"Nats-Rollup": {"sub"}}) },
			"a rollup replaces everything": func() error { return publish(grant, "x", natsgo.Header{"Nats-Rollup": {"all"}}) },
			"a message expires":            func() error { return publish(grant, "x", natsgo.Header{"Nats-TTL": {"1s"}}) },
			"an old grant is sent again":   func() error { return publish(grant, string(first.Data), first.Header) },
			"the newest renewal again":     func() error { return publish(renew, string(last.Data), last.Header) },
			"a stale compare-and-set": func() error {
				return publish(grant, forged("acquire", 1, 0, 1), natsgo.Header{
					"Nats-Expected-Last-Subject-Sequence":         {fmt.Sprint(first.Sequence)},
					"Nats-Expected-Last-Subject-Sequence-Subject": {strings.TrimSuffix(grant, "grant") + "*"}})
			},
			"deletes are allowed": func() error {
				config := raw.CachedInfo().Config
				config.DenyDelete = false
				_, err := js.UpdateStream(t.Context(), config)
				return err
			},
			"purges are allowed": func() error {
				config := raw.CachedInfo().Config
				config.DenyPurge = false
				_, err := js.UpdateStream(t.Context(), config)
				return err
			},
			"it moves into memory": func() error {
				config := raw.CachedInfo().Config
				config.Storage = jetstream.MemoryStorage
				_, err := js.UpdateStream(t.Context(), config)
				return err
			},
		} {
			t.Run("refused/"+name, func(t *testing.T) {
				require.Error(t, attack())
				intact(t)
			})
		}
		for name, attack := range map[string]func() error{
			"text":                              func() error { return publish(grant, "hello", nil) },
			"nothing":                           func() error { return publish(renew, "", nil) },
			"an epoch that goes back":           func() error { return publish(grant, forged("acquire", 1, 0, 1), nil) },
			"an epoch that moves by more":       func() error { return publish(grant, forged("acquire", 9, 0, 1), nil) },
			"a floor that goes down":            func() error { return publish(renew, forged("renew", 3, 0, 1<<62), nil) },
			"an old record without a condition": func() error { return publish(grant, string(first.Data), nil) },
			"a marker of a key-value delete": func() error {
				kv, err := js.KeyValue(t.Context(), cfg.Cluster+"-leases")
				if err != nil {
					return err
				}
				return kv.Delete(t.Context(), fmt.Sprintf("lease.%s.%s.grant", key.Org, key.Tenant))
			},
			"a condition on another subject": func() error {
				return publish(grant, forged("acquire", 1, 0, 1), natsgo.Header{
					"Nats-Expected-Last-Subject-Sequence": {"0"}, "Nats-Expected-Last-Subject-Sequence-Subject": {grant + "x"}})
			},
		} {
			t.Run("no_record/"+name, func(t *testing.T) {
				require.NoError(t, attack())
				intact(t)
			})
		}
		renewed, err := store.Renew(t.Context(), key, "c", 3, time.Hour)
		require.NoError(t, err, "usable after all that")
		require.Equal(t, uint64(2), renewed.Floor)
		require.NoError(t, store.Release(t.Context(), key, "c", 3))
		next, err := openLeases(t, cfg).Acquire(t.Context(), key, "d", time.Hour)
		require.NoError(t, err)
		require.Equal(t, uint64(4), next.Epoch)
	})
}

// A flood of foreign messages that pushes the record out must not look like a key that never was.
func TestB3_AFloodedKeyIsRefused(t *testing.T) {
	cfg := kinds[0].config(t)
	cfg.KeepEntries = 4
	store, key := openLeases(t, cfg), storetest.NewKey()
	_, err := store.Acquire(t.Context(), key, "a", time.Hour)
	require.NoError(t, err)
	nc := dial(t, cfg.URL)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	for range 5 {
		_, err = js.Publish(t.Context(), fmt.Sprintf("$KV.%s-leases.lease.%s.%s.grant", cfg.Cluster, key.Org, key.Tenant), []byte("x"))
		require.NoError(t, err)
	}
	_, err = store.Acquire(t.Context(), key, "b", time.Hour)
	require.ErrorIs(t, err, messages.ErrCorrupt)
	_, _, err = store.Read(t.Context(), key)
	require.ErrorIs(t, err, messages.ErrCorrupt)
}

// Renewals have a subject of their own, so that they never push a grant out of the trail.
func TestB4_RenewalsDoNotPushGrantsOut(t *testing.T) {
	cfg := kinds[0].config(t)
	cfg.KeepEntries = 6
	store, key := openLeases(t, cfg), storetest.NewKey()
	for epoch := uint64(1); epoch <= 3; epoch++ {
		_, err := store.Acquire(t.Context(), key, "a", time.Hour)
		require.NoError(t, err)
		for range 10 {
			_, err := store.Renew(t.Context(), key, "a", epoch, time.Hour)
			require.NoError(t, err)
		}
		require.NoError(t, store.Release(t.Context(), key, "a", epoch))
	}
	trail, err := store.History(t.Context(), key)
	require.NoError(t, err)
	counts := map[string]int{}
	for _, e := range trail {
		counts[e.Op]++
	}
	require.Equal(t, map[string]int{messages.OpAcquire: 3, messages.OpRelease: 3, messages.OpRenew: 6}, counts)
}
