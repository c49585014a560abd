package ledgeractor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// Callers give up, and the fence closes and opens, at every moment there is. Whatever a caller was
// told must be what the ledger says.
func TestWhatCallersAreToldIsWhatTheLedgerSays(t *testing.T) {
	l := start(t, limits(ledgeractor.Limits{MaxQueued: 40}))
	const callers, rounds = 8, 150
	var mu sync.Mutex
	told := map[string]messages.Code{}
	stop := make(chan struct{})
	var flapping sync.WaitGroup
	flapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			l.fence.close()
			for range rand.IntN(100) {
				runtime.Gosched()
			}
			l.fence.closed.Store(false)
			for range rand.IntN(1000) {
				runtime.Gosched()
			}
		}
	})
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for r := range rounds {
				kind := fmt.Sprintf("%d-%d", c, r)
				ctx, cancel := context.WithCancel(context.Background())
				var giveUp sync.WaitGroup
				giveUp.Go(func() {
					for range rand.IntN(300) {
						runtime.Gosched()
					}
					cancel()
				})
				var err error
				if r%3 == 0 {
					err = l.Run(ctx, func(tx *ledgeractor.Tx) error {
						_, err := tx.Append(tx.Context(), messages.Event{Kind: kind})
						return err
					})
				} else {
					_, err = l.Append(ctx, event(kind))
				}
				giveUp.Wait()
				mu.Lock()
				told[kind] = messages.CodeOf(err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	close(stop)
	flapping.Wait()
	require.NoError(t, l.Drain(t.Context()))
	require.NoError(t, l.Undrain(t.Context()))
	stored := map[string]int{}
	for _, kind := range l.kinds() {
		stored[kind]++
	}
	counts := map[messages.Code]int{}
	for kind, code := range told {
		counts[code]++
		switch code {
		case "":
			require.Equal(t, 1, stored[kind], "acknowledged and lost: %s", kind)
		case messages.CodeUnknownOutcome:
			require.LessOrEqual(t, stored[kind], 1)
		case messages.CodeFenced, messages.CodeCanceled, messages.CodeOverloaded:
			require.Zero(t, stored[kind], "refused (%s) and yet there: %s", code, kind)
		default:
			t.Errorf("%s: unexpected code %q", kind, code)
		}
	}
	t.Log(counts)
	require.Len(t, told, callers*rounds)
	require.Positive(t, counts[""])
	require.Positive(t, counts[messages.CodeFenced])
	require.EqualValues(t, len(stored), l.Status().Events)
	require.EqualValues(t, len(stored), l.Status().LastSeq, "no gaps")
}
