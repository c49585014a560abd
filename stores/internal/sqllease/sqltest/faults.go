package sqltest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/storetest"
)

// until is how long the tests of this file wait for what must happen soon, on a busy machine.
const until = 30 * time.Second

// writes are the operations that change a record, on a key whose lease owner a holds at epoch 1.
var writes = []struct {
	name  string
	fresh bool // on a key that nobody has acquired
	run   func(ctx context.Context, s Store, key messages.Key) error
	op    string
}{
	{"acquire", true, func(ctx context.Context, s Store, key messages.Key) error {
		_, err := s.Acquire(ctx, key, "a", time.Hour)
		return err
	}, messages.OpAcquire},
	{"renew", false, func(ctx context.Context, s Store, key messages.Key) error {
		_, err := s.Renew(ctx, key, "a", 1, time.Hour)
		return err
	}, messages.OpRenew},
	{"renew many", false, func(ctx context.Context, s Store, key messages.Key) error {
		_, err := s.RenewMany(ctx, []stores.Renewal{{Key: key, Owner: "a", Epoch: 1, TTL: time.Hour}})
		return err
	}, messages.OpRenew},
	{"forget", false, func(ctx context.Context, s Store, key messages.Key) error { return s.MarkForgotten(ctx, key, "a", 1) }, messages.OpForget},
	{"release", false, func(ctx context.Context, s Store, key messages.Key) error { return s.Release(ctx, key, "a", 1) }, messages.OpRelease},
}

// A connection that is lost in the middle is CodeUnavailable, whether the operation took effect or not, and the
// next operation finds another connection by itself.
func (s Subject) testLostConnections(t *testing.T) {
	server, name := s.Database(t)
	proxy, dsn := proxied(t, server, "", name)
	direct := s.open(t, server.DSN("", name), Options{Migrate: true})
	store := s.open(t, dsn, Options{MaxConns: 1})
	for _, w := range writes {
		// warm has a connection on which the next request is the operation itself.
		warm := func(t *testing.T) messages.Key {
			key := storetest.NewKey()
			for _, k := range []messages.Key{storetest.NewKey(), key} {
				if k != key || !w.fresh {
					_, err := store.Acquire(t.Context(), k, "a", time.Hour)
					require.NoError(t, err)
				}
				if k != key && !w.fresh {
					require.NoError(t, w.run(t.Context(), store, k))
				}
			}
			return key
		}
		took := func(t *testing.T, key messages.Key) bool {
			trail, err := direct.History(t.Context(), key)
			require.NoError(t, err)
			return len(trail) > 0 && trail[len(trail)-1].Op == w.op
		}
		t.Run(w.name+" answer cut", func(t *testing.T) {
			key := warm(t)
			proxy.CutNextAnswer()
			require.ErrorIs(t, w.run(t.Context(), store, key), messages.ErrUnavailable)
			require.True(t, took(t, key), "the request had arrived")
		})
		t.Run(w.name+" request cut", func(t *testing.T) {
			key := warm(t)
			proxy.CutNextRequest()
			require.ErrorIs(t, w.run(t.Context(), store, key), messages.ErrUnavailable)
			require.False(t, took(t, key))
		})
		t.Run(w.name+" answer dropped", func(t *testing.T) {
			key := warm(t)
			proxy.DropNextAnswer()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			err := w.run(ctx, store, key)
			require.ErrorIs(t, err, messages.ErrUnavailable)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.True(t, took(t, key))
		})
		t.Run(w.name+" idle connection cut", func(t *testing.T) {
			key := warm(t)
			proxy.CutAll()
			require.NoError(t, w.run(t.Context(), store, key), "nothing was sent on the dead connection")
			require.True(t, took(t, key))
		})
	}
}

// A server that is killed takes nothing back that it has granted, and the stores of the nodes go on when it
// is there again.
func (s Subject) testKilled(t *testing.T) {
	server := s.Private(t)
	dsn := server.DSN("", "test")
	const workers = 4
	store := s.open(t, dsn, Options{Migrate: true, Timeout: 2 * time.Second})
	keys := make([]messages.Key, workers)
	var mu sync.Mutex
	told := map[messages.Key]map[uint64]string{} // every grant that was acknowledged
	for i := range keys {
		keys[i] = storetest.NewKey()
		told[keys[i]] = map[uint64]string{}
	}
	for round := range 3 {
		enough := make(chan struct{})
		var grants int
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i, key := range keys {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					owner := fmt.Sprintf("%d-%d-%d", i, round, n)
					lease, err := store.Acquire(ctx, key, owner, messages.MinTTL)
					switch messages.CodeOf(err) {
					case "":
						mu.Lock()
						told[key][lease.Epoch] = owner
						if grants++; grants == 40 {
							close(enough)
						}
						mu.Unlock()
						err = store.Release(ctx, key, owner, lease.Epoch)
						if code := messages.CodeOf(err); err != nil && code != messages.CodeUnavailable && code != messages.CodeLost {
							t.Errorf("release: %v", err)
						}
					case messages.CodeHeld: // the lease of an answer that was lost
					case messages.CodeUnavailable:
						if ctx.Err() == nil {
							select { // the server is down
							case <-ctx.Done():
							case <-time.After(10 * time.Millisecond):
							}
						}
					default:
						t.Errorf("acquire: %v", err)
						return
					}
				}
			})
		}
		<-enough
		require.NoError(t, server.Kill())
		_, _, err := store.Read(t.Context(), keys[0])
		require.ErrorIs(t, err, messages.ErrUnavailable)
		cancel()
		wg.Wait()
		require.NoError(t, server.Start(t.Context()))
		require.Eventually(t, func() bool { _, _, err := store.Read(t.Context(), keys[0]); return err == nil }, until, 10*time.Millisecond)
		for _, key := range keys {
			trail, err := store.History(t.Context(), key)
			require.NoError(t, err)
			last := checkTrail(t, trail)
			owners := map[uint64]string{}
			for _, e := range trail {
				owners[e.Epoch] = e.Owner
			}
			for epoch, owner := range told[key] {
				require.Equal(t, owner, owners[epoch], "the grant of epoch %d was acknowledged", epoch)
			}
			record, ok, err := store.Read(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, last > 0, ok)
			require.Equal(t, last, record.Epoch)
		}
	}
}

// A frozen server accepts connections and says nothing: every call ends by its deadline, or by the store's
// own, with CodeUnavailable; and the store goes on when the server does.
func (s Subject) testFrozen(t *testing.T) {
	server := s.Private(t)
	store := s.open(t, server.DSN("", "test"), Options{Migrate: true, MaxConns: 2, Timeout: time.Second})
	key := storetest.NewKey()
	_, err := store.Acquire(t.Context(), key, "a", time.Hour)
	require.NoError(t, err)
	require.NoError(t, server.Pause())
	resume := sync.OnceFunc(func() { require.NoError(t, server.Resume()) })
	defer resume()
	var wg sync.WaitGroup
	for i := range 8 { // more than there are connections
		wg.Go(func() {
			start, limit := time.Now(), 200*time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if i%2 == 0 {
				ctx, limit = t.Context(), time.Second
			}
			_, err := store.Renew(ctx, key, "a", 1, time.Hour)
			if took := time.Since(start); messages.CodeOf(err) != messages.CodeUnavailable || took < limit || took > limit+5*time.Second {
				t.Errorf("after %v, with a limit of %v: %v", took, limit, err)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = s.Open(ctx, server.DSN("", "test"), Options{})
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	resume()
	require.Eventually(t, func() bool {
		_, err := store.Renew(t.Context(), key, "a", 1, time.Hour)
		return err == nil
	}, until, 10*time.Millisecond)
}

func (s Subject) testContext(t *testing.T) {
	store, dsn := s.fresh(t, Options{})
	key := storetest.NewKey()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, w := range writes {
		err := w.run(ctx, store, key)
		require.ErrorIs(t, err, messages.ErrUnavailable, w.name)
		require.ErrorIs(t, err, context.Canceled, w.name)
	}
	_, ok, err := store.Read(t.Context(), key)
	require.NoError(t, err)
	require.False(t, ok, "nothing was sent")

	// The wait for a row that another program has locked ends with the context.
	lease, err := store.Acquire(t.Context(), key, "a", time.Hour)
	require.NoError(t, err)
	tx, err := s.raw(t, dsn).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), s.statement(`SELECT * FROM @leases WHERE KEY = '`+key.String()+`' FOR UPDATE`))
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = store.Renew(short, key, "a", 1, time.Hour)
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	hasty := s.open(t, dsn, Options{Timeout: 100 * time.Millisecond})
	_, err = hasty.Renew(t.Context(), key, "a", 1, time.Hour)
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's deadline has not passed")
	got, _, err := store.Read(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, lease, got, "a reader waits for no lock")
	require.NoError(t, tx.Rollback())
	_, err = store.Renew(t.Context(), key, "a", 1, time.Hour)
	require.NoError(t, err)
}

func (s Subject) testClose(t *testing.T) {
	_, dsn := s.fresh(t, Options{})
	store, err := s.Open(t.Context(), dsn, Options{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	begun := make(chan struct{}, 8)
	for i := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				var err error
				if i%2 == 0 {
					_, err = store.Acquire(t.Context(), storetest.NewKey(), "a", time.Hour)
				} else {
					_, err = store.History(t.Context(), storetest.NewKey())
				}
				if n == 0 {
					begun <- struct{}{}
				}
				if err != nil {
					if messages.CodeOf(err) != messages.CodeClosed {
						t.Errorf("beside Close: %v", err)
					}
					return
				}
			}
		})
	}
	for range 8 {
		<-begun
	}
	require.NoError(t, store.Close())
	require.NoError(t, store.Close())
	wg.Wait()
	_, _, err = store.Read(t.Context(), storetest.NewKey())
	require.ErrorIs(t, err, messages.ErrClosed)
}
