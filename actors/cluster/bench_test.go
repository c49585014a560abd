package cluster_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// BenchmarkAppend compares an append from outside the cluster, over NATS, with one inside the process, in one
// run: "x-in-process" is how many times as long it takes.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			f := newFleet(b)
			p := f.join("a")
			key := f.key(0)
			inside, err := p.node.Tenant(b.Context(), key.Org, key.Tenant)
			require.NoError(b, err)
			outside := f.tenant(f.client(), 0)
			event := messages.Event{Kind: "k", Payload: []byte(`{"km":12}`)}
			run := func(append func(context.Context, messages.Event) (messages.Appended, error)) time.Duration {
				var left atomic.Int64
				left.Store(int64(b.N))
				var all sync.WaitGroup
				begun := time.Now()
				for range callers {
					all.Go(func() {
						for left.Add(-1) >= 0 {
							if _, err := append(b.Context(), event); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				return time.Since(begun)
			}
			run(outside.Append) // whom to ask is known then
			baseline := run(inside.Append)
			b.ResetTimer()
			b.ReportMetric(float64(run(outside.Append))/float64(baseline), "x-in-process")
		})
	}
}
