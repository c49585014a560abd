package actors_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestMaxTransfersBoundsTheImagesOfSnapshots(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) {
			c.MaxTransfers, c.SnapshotEvery, c.DurableTimeout = 1, time.Hour, time.Minute
		})
		a, b := open(t, n, "a"), open(t, n, "b")
		appendKind(t, a, "1")
		appendKind(t, b, "1")
		// The first snapshot of a stays in doubt; the next one settles it, and then has an image of its own.
		remove := f.durable.Add(func(c storetest.Call) bool { return strings.HasSuffix(c.Key, "snap-000001.json") }, -1,
			func(storetest.Call) storetest.Action { return storetest.Fail(nil) })
		_, err := a.Snapshot(within(t, time.Minute))
		require.ErrorIs(t, err, messages.ErrUnavailable)
		remove()
		uploading := make(chan struct{})
		f.durable.Add(func(c storetest.Call) bool { return c.Key == a.Key().ImageName(1, 2) && c.Op == storetest.OpPut }, 1,
			func(storetest.Call) storetest.Action { close(uploading); return storetest.Delay(10 * time.Second) })
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := a.Snapshot(within(t, time.Minute))
			require.NoError(t, err)
		})
		<-uploading
		begun := time.Now()
		_, err = b.Snapshot(within(t, time.Minute))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(begun), 9*time.Second, "two images at a time")
		wg.Wait()
	})
}

func TestMaxTransfersBoundsTheImagesOfRestores(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		subjects := []string{"a", "b", "c", "d", "e"}
		first := f.start()
		for _, s := range subjects {
			appendKind(t, open(t, first, s), s)
		}
		require.NoError(t, first.Shutdown(t.Context()))
		// Each get takes longer than half of its own timeout: waiting for a slot must not count.
		n := f.start(func(c *actors.Config) { c.MaxTransfers, c.DurableTimeout = 2, 3*time.Second })
		f.durable.Add(func(c storetest.Call) bool { return c.Op == storetest.OpGet && strings.HasSuffix(c.Key, ".db") }, -1,
			func(storetest.Call) storetest.Action { return storetest.Delay(2 * time.Second) })
		var mu sync.Mutex
		images, most := 0, 0
		f.durable.Observe(func(e storetest.Event) {
			if e.Call.Op != storetest.OpGet || !strings.HasSuffix(e.Call.Key, ".db") {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch e.Phase {
			case storetest.Called:
				images++
				most = max(most, images)
			case storetest.Answered:
				images--
			}
		})
		var wg sync.WaitGroup
		for _, s := range subjects {
			wg.Go(func() { require.Equal(t, []string{s}, kinds(t, open(t, n, s))) })
		}
		wg.Wait()
		require.Equal(t, 2, most)
	})
}
