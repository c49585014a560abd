package actors_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

// The position of an answer is that of what it shows, also while others write; and whoever was told a position is never told by the
// next request that it is not there.
func TestQ4_AReadNamesWhatItShows(t *testing.T) {
	n, err := actors.Start(t.Context(), actors.Config{StateRoot: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Shutdown(t.Context())) }()
	key, err := messages.NewKey("acme", "t-3129611eac9be1d5994a2b216b06ed27")
	require.NoError(t, err)
	const writers, appends, readers = 8, 250, 4
	var reading, writing sync.WaitGroup
	var done atomic.Bool
	var reads, behind atomic.Int64
	ask := func(req messages.Request) *messages.Reply {
		req.Version, req.Key, req.TimeoutMS = messages.WireVersion, key, 60_000
		reply := n.Do(t.Context(), &req)
		require.Nil(t, reply.Error)
		return reply
	}
	ask(messages.Request{Action: messages.ActionAppend, Events: []messages.Event{{Kind: "k"}}}) // creates the tenant
	for range writers {
		writing.Go(func() {
			seen := messages.Seen{}
			for range appends {
				reply := ask(messages.Request{Action: messages.ActionAppend, Events: []messages.Event{{Kind: "k"}}, Seen: seen})
				seen = reply.Seen()
				require.Equal(t, reply.Appended[0].Seq, seen.Seq)
			}
		})
	}
	for i := range readers {
		reading.Go(func() {
			seen := messages.Seen{}
			for !done.Load() {
				shown, reply := int64(0), (*messages.Reply)(nil)
				if i%2 == 0 {
					reply = ask(messages.Request{Action: messages.ActionQuery, SQL: "SELECT coalesce(max(seq), 0) FROM events", Seen: seen})
					shown = reply.Result.Rows[0][0].(int64)
				} else {
					reply = ask(messages.Request{Action: messages.ActionEvents, After: seen.Seq, Seen: seen})
					shown = seen.Seq
					if len(reply.Events) > 0 {
						shown = reply.Events[len(reply.Events)-1].Seq
					}
				}
				reads.Add(1)
				if reply.Seq != shown {
					behind.Add(1)
				}
				require.GreaterOrEqual(t, reply.Seq, seen.Seq)
				seen = reply.Seen()
			}
		})
	}
	writing.Wait()
	done.Store(true)
	reading.Wait()
	t.Logf("%d of %d reads named another position than they showed", behind.Load(), reads.Load())
	require.Zero(t, behind.Load())
	require.Greater(t, reads.Load(), int64(100))
}
