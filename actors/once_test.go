package actors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// booking registers "book", which appends an event and counts how often it ran.
func booking(runs *atomic.Int64) func(*actors.Config) {
	return func(c *actors.Config) {
		c.Commands = map[string]ledgeractor.Command{
			"book": func(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
				runs.Add(1)
				out, err := tx.Append(ctx, messages.Event{Kind: "booked", Payload: in})
				return out.Seq, err
			},
		}
	}
}

// A client whose answer was lost asks the next owner, with its key.
func TestW2_H1_ACommandRunsOnceAcrossAHandoff(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		var runs atomic.Int64
		a, b := f.start(booking(&runs)), f.start(booking(&runs))
		tenant := open(t, a, "u")
		in := json.RawMessage(`{"room":7}`)
		first, at, duplicate, err := tenant.CallOnce(t.Context(), "book", "k", in)
		require.NoError(t, err)
		require.Equal(t, "1", string(first))
		require.EqualValues(t, 1, at)
		require.False(t, duplicate)
		require.NoError(t, tenant.Handoff(t.Context()))

		next := open(t, b, "u")
		again, at, duplicate, err := next.CallOnce(t.Context(), "book", "k", in)
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
		require.EqualValues(t, 2, at, "the epoch that acknowledges it now")
		require.True(t, duplicate)
		require.EqualValues(t, 1, runs.Load())
		_, _, _, err = next.CallOnce(t.Context(), "book", "k", nil)
		require.ErrorIs(t, err, messages.ErrIdempotencyConflict)
		// Without a key every call runs.
		for want := int64(2); want <= 3; want++ {
			out, at, err := next.CallAt(t.Context(), "book", in)
			require.NoError(t, err)
			require.EqualValues(t, 2, at)
			require.Equal(t, fmt.Sprint(want), string(out))
		}
		require.Equal(t, []string{"booked", "booked", "booked"}, kinds(t, next))
	})
}

// A crash loses what no snapshot holds: the work and its key together. Whatever the snapshot has, a retry
// with the key makes it one booking.
func TestW2_H2_ACrashLosesACommandWithItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		var runs atomic.Int64
		a := f.start(booking(&runs), func(c *actors.Config) { c.SnapshotEvery = time.Hour })
		b := f.start(booking(&runs))
		tenant := open(t, a, "u")
		for _, key := range []string{"saved", "lost"} {
			_, _, _, err := tenant.CallOnce(t.Context(), "book", key, nil)
			require.NoError(t, err)
			if key == "saved" {
				_, err := tenant.Snapshot(t.Context())
				require.NoError(t, err)
			}
		}
		require.NoError(t, a.Abort())
		time.Sleep(ttl)
		next := open(t, b, "u")
		require.Equal(t, []string{"booked"}, kinds(t, next))
		for _, key := range []string{"saved", "lost"} {
			for try := range 2 {
				_, _, duplicate, err := next.CallOnce(t.Context(), "book", key, nil)
				require.NoError(t, err)
				require.Equal(t, key == "saved" || try > 0, duplicate, key)
			}
		}
		require.Equal(t, []string{"booked", "booked"}, kinds(t, next))
		require.EqualValues(t, 3, runs.Load())
	})
}

// Eight callers retry the same bookings at two nodes, while the tenant moves to and fro between them.
func TestW2_RetriesDuringHandoffsBookOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		var runs, firsts atomic.Int64
		nodes := []*actors.Node{f.start(booking(&runs)), f.start(booking(&runs))}
		const callers, bookings = 8, 30
		ask := func(n *actors.Node, key string) (duplicate bool, err error) {
			tenant, err := tryOpen(t.Context(), n, tenantID(t, "u"))
			if err == nil {
				_, _, duplicate, err = tenant.CallOnce(t.Context(), "book", key, nil)
			}
			return duplicate, err
		}
		var group sync.WaitGroup
		for c := range callers {
			group.Go(func() {
				for i := range bookings {
					for n := c; ; n++ { // one of them has it
						duplicate, err := ask(nodes[n%2], fmt.Sprint(i))
						if err == nil {
							if !duplicate {
								firsts.Add(1)
							}
							break
						}
						time.Sleep(time.Millisecond)
					}
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		moves := 0
		for i := range 20 {
			time.Sleep(10 * time.Millisecond)
			held, err := tryOpen(t.Context(), nodes[i%2], tenantID(t, "u"))
			if err == nil && held.Handoff(t.Context()) == nil {
				moves++
			}
		}
		group.Wait()
		require.GreaterOrEqual(t, moves, 5)
		require.EqualValues(t, bookings, firsts.Load())
		require.EqualValues(t, bookings, runs.Load())
	})
}
