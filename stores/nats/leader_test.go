package nats_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
	"github.com/leasehold/leasehold/stores/storetest"
)

// contention lets several owners acquire, renew and release one key, each with a connection of its own, and
// readers look on, until it is stopped.
type contention struct {
	key     messages.Key
	stop    context.CancelFunc
	wg      sync.WaitGroup
	newest  atomic.Uint64 // the highest epoch that anybody was granted
	grants  atomic.Int64
	reads   atomic.Int64
	mu      sync.Mutex
	granted map[uint64]string
	errs    []error
}

func contend(t *testing.T, cfg nats.Config, owners, readers int) *contention {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &contention{key: storetest.NewKey(), stop: cancel, granted: map[uint64]string{}}
	for i := range owners {
		store := openLeases(t, cfg)
		c.wg.Go(func() { c.note(c.own(ctx, store, fmt.Sprint("owner-", i))) })
	}
	for range readers {
		store := openLeases(t, cfg)
		c.wg.Go(func() { c.note(c.look(ctx, store)) })
	}
	return c
}

func (c *contention) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

func (c *contention) own(ctx context.Context, store *nats.Leases, owner string) error {
	for ctx.Err() == nil {
		lease, err := store.Acquire(ctx, c.key, owner, time.Second)
		switch {
		case errors.Is(err, messages.ErrHeld):
			continue
		case errors.Is(err, messages.ErrUnavailable):
			continue
		case err != nil:
			return err
		}
		c.mu.Lock()
		other, twice := c.granted[lease.Epoch]
		c.granted[lease.Epoch] = owner
		c.mu.Unlock()
		if twice {
			return fmt.Errorf("epoch %d was granted to %s and to %s", lease.Epoch, other, owner)
		}
		for seen := c.newest.Load(); seen < lease.Epoch && !c.newest.CompareAndSwap(seen, lease.Epoch); seen = c.newest.Load() {
		}
		c.grants.Add(1)
		for _, err := range []error{
			func() error { _, err := store.Renew(ctx, c.key, owner, lease.Epoch, time.Second); return err }(),
			store.Release(ctx, c.key, owner, lease.Epoch),
		} {
			if err != nil && !errors.Is(err, messages.ErrLost) && !errors.Is(err, messages.ErrUnavailable) {
				return err
			}
		}
	}
	return nil
}

// look reads, and compares with what had been granted before it asked.
func (c *contention) look(ctx context.Context, store *nats.Leases) error {
	for ctx.Err() == nil {
		before := c.newest.Load()
		lease, _, err := store.Read(ctx, c.key)
		if errors.Is(err, messages.ErrUnavailable) {
			continue
		}
		if err != nil {
			return err
		}
		if lease.Epoch < before {
			return fmt.Errorf("a stale read: epoch %d, and %d had been granted before", lease.Epoch, before)
		}
		c.reads.Add(1)
	}
	return nil
}

// until waits for the given number of grants and reads from now on.
func (c *contention) until(t *testing.T, grants, reads int64) {
	t.Helper()
	g, r := c.grants.Load()+grants, c.reads.Load()+reads
	require.Eventually(t, func() bool {
		return (c.grants.Load() >= g && c.reads.Load() >= r) || c.failed() != nil
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, c.failed())
}

func (c *contention) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}

// end stops everybody and compares what they were told with the trail.
func (c *contention) end(t *testing.T, store *nats.Leases) {
	t.Helper()
	c.stop()
	c.wg.Wait()
	require.NoError(t, c.failed())
	trail, err := store.History(t.Context(), c.key)
	require.NoError(t, err)
	epoch := uint64(0)
	var at time.Time
	for _, e := range trail {
		require.False(t, e.At.Before(at), "the store's time went back")
		at = e.At
		if e.Op != messages.OpAcquire {
			require.Equal(t, epoch, e.Epoch)
			continue
		}
		epoch++
		require.Equal(t, epoch, e.Epoch, "an epoch was granted twice, or skipped")
		if owner, ok := c.granted[epoch]; ok {
			require.Equal(t, owner, e.Owner)
		}
	}
	require.Equal(t, epoch, max(epoch, c.newest.Load()))
	for e := range c.granted {
		require.LessOrEqual(t, e, epoch, "a grant that was told of is not in the trail")
	}
	t.Logf("%d grants, %d reads, %d epochs", c.grants.Load(), c.reads.Load(), epoch)
}

// The leader of the bucket steps down again and again, and its server is stopped and started, under contention.
func TestB4_NoEpochTwiceWhenTheLeaderChanges(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	servers, err := natsserver.StartCluster(ctx, t.TempDir(), 3)
	require.NoError(t, err)
	defer servers.Shutdown()
	cfg := nats.Config{URL: servers.URL(), Replicas: 3, SyncAlways: true, KeepEntries: 100_000, Cluster: "changes", Timeout: time.Minute}
	const stream = "KV_changes-leases"
	store := openLeases(t, cfg)
	c := contend(t, cfg, 3, 2)
	c.until(t, 5, 50)
	for range 5 {
		require.True(t, servers.StepDown(stream))
		c.until(t, 5, 50)
	}
	i := servers.Leader(stream)
	require.GreaterOrEqual(t, i, 0)
	servers.Stop(i)
	c.until(t, 5, 100)
	require.NoError(t, servers.Start(ctx, i))
	require.NoError(t, servers.Ready(ctx))
	c.until(t, 5, 100)
	c.end(t, store)
}

// The leader's process is killed under contention; then the next one is frozen, is replaced, and comes back
// believing that it still leads. A client that knows no other server than this one reads nothing stale.
func TestB4_NoEpochTwiceAndNoStaleReadWhenTheLeaderDiesOrFreezes(t *testing.T) {
	p := startProcesses(t)
	var ready []func()
	for i := range p.cfgs { // all first, then wait for each
		ready = append(ready, p.start(i))
	}
	for _, r := range ready {
		r()
	}
	cfg := nats.Config{URL: p.urls(), Replicas: 3, SyncAlways: true, KeepEntries: 100_000, Cluster: "deaths", Timeout: time.Minute,
		Options: []natsgo.Option{natsgo.PingInterval(200 * time.Millisecond)}}
	const stream = "KV_deaths-leases"
	store := openLeases(t, cfg)
	c := contend(t, cfg, 3, 2)
	c.until(t, 5, 50)
	killed := p.leader(dial(t, p.urls()), stream)
	p.signal(killed, syscall.SIGKILL)
	c.until(t, 5, 50)
	p.start(killed)()
	c.until(t, 5, 50)

	frozen := p.leader(dial(t, p.urls()), stream)
	only := cfg
	only.URL, only.Options = p.url(frozen), []natsgo.Option{natsgo.IgnoreDiscoveredServers(), natsgo.PingInterval(time.Hour)}
	witness := openLeases(t, only)
	before, _, err := witness.Read(t.Context(), c.key)
	require.NoError(t, err)
	p.signal(frozen, syscall.SIGSTOP)
	c.until(t, 5, 50)
	require.NotEqual(t, frozen, p.leader(dial(t, p.urls(frozen)), stream))
	known := c.newest.Load()
	require.Greater(t, known, before.Epoch)
	// These wait in the socket of the frozen server, and are the first that it sees when it goes on.
	var asked, answered sync.WaitGroup
	results := make(chan uint64, 64)
	for range cap(results) {
		asked.Add(1)
		answered.Go(func() {
			asked.Done()
			after, _, err := witness.Read(t.Context(), c.key)
			c.note(err)
			results <- after.Epoch
		})
	}
	asked.Wait()
	p.signal(frozen, syscall.SIGCONT)
	answered.Wait()
	for range cap(results) {
		require.GreaterOrEqual(t, <-results, known, "a stale read")
	}
	c.until(t, 5, 50)
	c.end(t, store)
}

// Reads through other servers than the one that was written through.
func TestReads_AreNeverStale(t *testing.T) {
	cfg := kinds[1].config(t)
	writer := openLeases(t, cfg)
	var readers []*nats.Leases
	var objects []*nats.Objects
	for _, s := range three.Servers {
		cfg.URL = s.URL()
		readers, objects = append(readers, openLeases(t, cfg)), append(objects, openObjects(t, cfg))
	}
	key := storetest.NewKey()
	_, err := writer.Acquire(t.Context(), key, "a", time.Hour)
	require.NoError(t, err)
	for i := range 1000 {
		written, err := writer.Renew(t.Context(), key, "a", 1, time.Hour)
		require.NoError(t, err)
		read, ok, err := readers[i%3].Read(t.Context(), key)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, written, read)
		if i%10 == 0 {
			name := fmt.Sprintf("a/e%d/x", i)
			_, err := objects[i%3].PutIfAbsent(t.Context(), name, []byte(name))
			require.NoError(t, err)
			keys, err := objects[(i+1)%3].List(t.Context(), "a/")
			require.NoError(t, err)
			require.Contains(t, keys, name)
			_, ok, err := objects[(i+2)%3].Get(t.Context(), name, 1<<30)
			require.NoError(t, err)
			require.True(t, ok)
		}
	}
}
