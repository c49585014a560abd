package actors_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// load is a client that appends every 20 ms and notes what it was told.
type load struct {
	mu    sync.Mutex
	acked []string
	last  time.Time // of the last acknowledgement
	codes map[messages.Code]int
	stop  func()
}

func startLoad(t *testing.T, tenant *actors.Tenant) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{codes: map[messages.Code]int{}}
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			kind := fmt.Sprint("w", i)
			_, err := tenant.Append(ctx, messages.Event{Kind: kind, IdemKey: kind})
			if ctx.Err() != nil {
				return // told to stop
			}
			l.mu.Lock()
			if err == nil {
				l.acked, l.last = append(l.acked, kind), time.Now()
			} else {
				l.codes[messages.CodeOf(err)]++
			}
			l.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
		}
	})
	l.stop = func() { cancel(); running.Wait() }
	t.Cleanup(l.stop)
	return l
}

// since returns how many writes were acknowledged, and when the last one was.
func (l *load) since() (count int, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked), l.last
}

// requireAll demands every acknowledged write, in order, and nothing twice.
func (l *load) requireAll(t *testing.T, tenant *actors.Tenant) {
	t.Helper()
	l.stop()
	found := kinds(t, tenant)
	there := map[string]bool{}
	for _, kind := range found {
		require.False(t, there[kind], "%s is there twice", kind)
		there[kind] = true
	}
	var lost []string
	for _, kind := range l.acked {
		if !there[kind] {
			lost = append(lost, kind)
		}
	}
	require.Empty(t, lost, "%d acknowledged writes are missing, of %d", len(lost), len(l.acked))
}

// rarely leaves only the snapshots that the protocol itself takes.
func rarely(c *actors.Config) { c.SnapshotEvery = time.Hour }

// cutOff lets no call of an owner reach the lease store.
func (f *fleet) cutOff(owner string) (remove func()) {
	return f.leases.Add(func(c storetest.Call) bool {
		return c.Owner == owner || (c.Op == storetest.OpRenewMany && c.Renewals[0].Owner == owner)
	}, -1, func(storetest.Call) storetest.Action { return storetest.Fail(nil) })
}

// partition is a durable store that one node cannot reach while it is cut.
type partition struct {
	*storetest.FaultyDurable
	cut *atomic.Bool
}

func (p partition) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	if p.cut.Load() {
		return false, &messages.Error{Code: messages.CodeUnavailable, Message: "cut"}
	}
	return p.FaultyDurable.PutIfAbsent(ctx, key, data)
}

func (p partition) Get(ctx context.Context, key string, most int64) ([]byte, bool, error) {
	if p.cut.Load() {
		return nil, false, &messages.Error{Code: messages.CodeUnavailable, Message: "cut"}
	}
	return p.FaultyDurable.Get(ctx, key, most)
}
