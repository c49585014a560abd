package nats_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/storetest"
)

// behind opens a Config whose connection goes through a proxy, to one server.
func behind(t *testing.T, k kind) (*proxy, nats.Config) {
	t.Helper()
	cfg := k.config(t)
	url, _, _ := strings.Cut(cfg.URL, ",")
	p := newProxy(t, strings.TrimPrefix(url, "nats://"))
	cfg.URL = p.url()
	cfg.Options = []natsgo.Option{natsgo.IgnoreDiscoveredServers(), natsgo.ReconnectWait(time.Millisecond), natsgo.ReconnectJitter(time.Millisecond, time.Millisecond)}
	return p, cfg
}

// The answer to a write is lost after the server stored it. The operation finds out that it was done, and it is
// done once.
func TestS10_LostAnswersOfLeasesAreSettled(t *testing.T) {
	on(t, func(t *testing.T, k kind) {
		p, cfg := behind(t, k)
		store, key := openLeases(t, cfg), storetest.NewKey()
		lose := func() { p.loseAnswerTo(string(key.Tenant) + ".") }

		lose()
		lease, err := store.Acquire(t.Context(), key, "a", time.Hour) // the answer to its read
		require.NoError(t, err)
		require.Equal(t, uint64(1), lease.Epoch)
		require.Equal(t, 1, p.lost())
		for _, op := range []string{messages.OpRenew, messages.OpForget, messages.OpRelease} {
			lose()
			switch op {
			case messages.OpRenew:
				_, err = store.Renew(t.Context(), key, "a", 1, time.Hour)
			case messages.OpForget:
				err = store.MarkForgotten(t.Context(), key, "a", 1)
			case messages.OpRelease:
				err = store.Release(t.Context(), key, "a", 1)
			}
			require.NoError(t, err, op)
		}
		require.Equal(t, 4, p.lost())
		p.loseAnswerTo(".grant") // that of the proposal itself: nothing else names the subject
		lease, err = store.Acquire(t.Context(), key, "b", time.Hour)
		require.NoError(t, err)
		require.Equal(t, uint64(2), lease.Epoch)
		require.Equal(t, 5, p.lost())

		trail, err := store.History(t.Context(), key)
		require.NoError(t, err)
		var ops []string
		for _, e := range trail {
			ops = append(ops, e.Op)
		}
		require.Equal(t, []string{messages.OpAcquire, messages.OpRenew, messages.OpForget, messages.OpRelease, messages.OpAcquire}, ops)
	})
}

// A proposal is held up on its way, is looked for in vain and sent again; then the first one lands, just before the second. The
// operation finds out that it was done, it is done once, and nobody is told that it was refused.
func TestS10_AProposalThatLandsBetweenTheLookAndTheResendIsSettled(t *testing.T) {
	on(t, func(t *testing.T, k kind) {
		p, cfg := behind(t, k)
		store, key := openLeases(t, cfg), storetest.NewKey()
		op := func(subject string, do func() error) {
			t.Helper()
			before := p.late()
			p.landsBetween(string(key.Tenant) + "." + subject)
			require.NoError(t, do())
			require.Equal(t, before+1, p.late())
		}
		acquire := func(owner string, epoch uint64) func() error {
			return func() error {
				lease, err := store.Acquire(t.Context(), key, owner, time.Hour)
				require.Equal(t, epoch, lease.Epoch)
				return err
			}
		}
		op("grant", acquire("a", 1))
		op("renew", func() error { _, err := store.Renew(t.Context(), key, "a", 1, time.Hour); return err })
		op("grant", func() error { return store.MarkLineage(t.Context(), key, "a", 1) })
		op("grant", func() error { return store.MarkForgotten(t.Context(), key, "a", 1) })
		op("grant", func() error { return store.Release(t.Context(), key, "a", 1) })
		op("grant", acquire("b", 2))
		op("renew", func() error {
			results, err := store.RenewMany(t.Context(), []stores.Renewal{{Key: key, Owner: "b", Epoch: 2, TTL: time.Hour}})
			require.NoError(t, results[0].Err)
			return err
		})
		trail, err := store.History(t.Context(), key)
		require.NoError(t, err)
		var ops []string
		for _, e := range trail {
			ops = append(ops, e.Op)
		}
		require.Equal(t, []string{messages.OpAcquire, messages.OpRenew, messages.OpLineage, messages.OpForget, messages.OpRelease,
			messages.OpAcquire, messages.OpRenew}, ops)

		objects := openObjects(t, cfg)
		p.landsBetween(".objects.m.a")
		created, err := objects.PutIfAbsent(t.Context(), "a", []byte("x"))
		require.NoError(t, err)
		require.True(t, created, "it was this put")
		require.Equal(t, 8, p.late())
	})
}

// A batch whose answers are lost in the middle.
func TestS10_LostAnswersOfABatchAreSettled(t *testing.T) {
	p, cfg := behind(t, kinds[0])
	store := openLeases(t, cfg)
	var batch []stores.Renewal
	for range 50 {
		key := storetest.NewKey()
		_, err := store.Acquire(t.Context(), key, "a", time.Hour)
		require.NoError(t, err)
		batch = append(batch, stores.Renewal{Key: key, Owner: "a", Epoch: 1, TTL: time.Hour})
	}
	p.loseAnswerTo(string(batch[25].Key.Tenant))
	results, err := store.RenewMany(t.Context(), batch)
	require.NoError(t, err)
	require.Equal(t, 1, p.lost())
	for i, r := range results {
		require.NoError(t, r.Err)
		trail, err := store.History(t.Context(), batch[i].Key)
		require.NoError(t, err)
		require.Len(t, trail, 2, "renewed once")
		require.Equal(t, trail[1].End, r.Lease.End)
	}
}

func TestS10_LostAnswersOfObjectsAreSettled(t *testing.T) {
	on(t, func(t *testing.T, k kind) {
		p, cfg := behind(t, k)
		cfg.ChunkBytes = 1000
		store := openObjects(t, cfg)
		for name, body := range map[string][]byte{"small": []byte("x"), "chunked": bytes.Repeat([]byte("abc"), 5000)} {
			before := p.lost()
			p.loseAnswerTo(".objects.m." + name) // the look of a large one, the manifest of a small one
			created, err := store.PutIfAbsent(t.Context(), name, body)
			require.NoError(t, err)
			require.True(t, created)
			if body := body; len(body) > 1000 {
				p.loseAnswerTo(".objects.c." + name)
				created, err = store.PutIfAbsent(t.Context(), name+"-2", body)
				require.NoError(t, err)
				require.True(t, created)
			}
			require.Greater(t, p.lost(), before)
			data, ok, err := store.Get(t.Context(), name, 1<<30)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, body, data)
			p.loseAnswerTo("MSG.DELETE")
			deleted, err := store.Delete(t.Context(), name)
			require.NoError(t, err)
			require.True(t, deleted)
			require.GreaterOrEqual(t, p.lost(), before+2)
		}
	})
}

// While the server cannot be reached every operation is CodeUnavailable by its deadline, and the same store goes on
// when it is back.
func TestUnavailable_ByTheDeadline(t *testing.T) {
	p, cfg := behind(t, kinds[0])
	leases, objects, key := openLeases(t, cfg), openObjects(t, cfg), storetest.NewKey()
	lease, err := leases.Acquire(t.Context(), key, "a", time.Hour)
	require.NoError(t, err)
	require.NoError(t, p.listener.Close())
	p.cut()
	for name, op := range map[string]func(context.Context) error{
		"read":    func(ctx context.Context) error { _, _, err := leases.Read(ctx, key); return err },
		"acquire": func(ctx context.Context) error { _, err := leases.Acquire(ctx, key, "b", time.Hour); return err },
		"renew":   func(ctx context.Context) error { _, err := leases.Renew(ctx, key, "a", 1, time.Hour); return err },
		"release": func(ctx context.Context) error { return leases.Release(ctx, key, "a", 1) },
		"forget":  func(ctx context.Context) error { return leases.MarkForgotten(ctx, key, "a", 1) },
		"history": func(ctx context.Context) error { _, err := leases.History(ctx, key); return err },
		"list":    func(ctx context.Context) error { _, err := leases.Leases(ctx, "", 10); return err },
		"batch": func(ctx context.Context) error {
			r, err := leases.RenewMany(ctx, []stores.Renewal{{Key: key, Owner: "a", Epoch: 1, TTL: time.Hour}, {Key: storetest.NewKey(), Owner: "a", Epoch: 1, TTL: time.Hour}})
			if err == nil {
				err = r[1].Err
			}
			return err
		},
		"put":        func(ctx context.Context) error { _, err := objects.PutIfAbsent(ctx, "a", nil); return err },
		"get":        func(ctx context.Context) error { _, _, err := objects.Get(ctx, "a", 1<<30); return err },
		"list_keys":  func(ctx context.Context) error { _, err := objects.List(ctx, ""); return err },
		"delete":     func(ctx context.Context) error { _, err := objects.Delete(ctx, "a"); return err },
		"delete_all": func(ctx context.Context) error { _, err := objects.DeletePrefix(ctx, "a/"); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		began := time.Now()
		err := op(ctx)
		cancel()
		require.ErrorIs(t, err, messages.ErrUnavailable, name)
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.Less(t, time.Since(began), 2*time.Second, name)
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		err = op(ctx)
		require.ErrorIs(t, err, messages.ErrUnavailable, name)
		require.ErrorIs(t, err, context.Canceled, name)
	}
	again, err := net.Listen("tcp", p.listener.Addr().String())
	require.NoError(t, err)
	p.listener = again
	p.wg.Go(p.accept)
	renewed, err := leases.Renew(t.Context(), key, "a", 1, time.Hour)
	require.NoError(t, err)
	require.True(t, renewed.End.After(lease.End))
	created, err := objects.PutIfAbsent(t.Context(), "b", nil)
	require.NoError(t, err)
	require.True(t, created)
}

func TestClose(t *testing.T) {
	cfg := kinds[0].config(t)
	leases, objects, key := openLeases(t, cfg), openObjects(t, cfg), storetest.NewKey()
	for range 2 {
		require.NoError(t, leases.Close())
		require.NoError(t, objects.Close())
	}
	_, err := leases.Acquire(t.Context(), key, "a", time.Hour)
	require.ErrorIs(t, err, messages.ErrClosed)
	_, err = leases.RenewMany(t.Context(), []stores.Renewal{{Key: key, Owner: "a", Epoch: 1, TTL: time.Hour}})
	require.ErrorIs(t, err, messages.ErrClosed)
	_, _, err = objects.Get(t.Context(), "a", 1<<30)
	require.ErrorIs(t, err, messages.ErrClosed)
	_, err = leases.Acquire(t.Context(), messages.Key{}, "a", time.Hour)
	require.ErrorIs(t, err, messages.ErrInvalidID, "validation first")
}
