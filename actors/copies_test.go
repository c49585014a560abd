package actors_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// A request that comes twice, because its client was not answered soon, is one: nobody is told of a duplicate who has
// asked once. Another caller with the same idempotency key is told; and who takes the id of somebody else's request
// is not answered with that.
func TestW2_CopiesOfARequestAreOne(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		key := messages.Key{Org: "acme", Tenant: tenantID(t, "u")}
		gate := make(chan struct{})
		f.leases.BeforeNext(storetest.OpAcquire, func(context.Context, storetest.Call) { <-gate })
		ask := func(ctx context.Context, id, kind, idem string) <-chan *messages.Reply {
			replies := make(chan *messages.Reply, 1)
			go func() {
				replies <- n.Do(ctx, &messages.Request{Version: messages.WireVersion, Action: messages.ActionAppend, Key: key, ID: id, TimeoutMS: 60_000,
					Events: []messages.Event{{Kind: kind, IdemKey: idem}}})
			}()
			synctest.Wait()
			return replies
		}
		first := ask(t.Context(), "id-1", "k", "key-1")
		second := ask(t.Context(), "id-1", "k", "key-1")
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		impatient := ask(short, "id-1", "k", "key-1")
		stranger := ask(t.Context(), "id-1", "another", "key-2")
		other := ask(t.Context(), "id-2", "k", "key-1")
		gone := <-impatient
		require.Equal(t, messages.CodeUnknownOutcome, gone.Error.Code)
		require.Equal(t, messages.CodeDeadlineExceeded, gone.Error.Cause)
		close(gate)
		a, b, c, d := <-first, <-second, <-stranger, <-other
		for _, reply := range []*messages.Reply{a, b, c, d} {
			require.Nil(t, reply.Error)
			require.Len(t, reply.Appended, 1)
		}
		require.Equal(t, a, b)
		require.NotSame(t, a, b)
		require.NotEqual(t, a.Appended[0].Seq, c.Appended[0].Seq)
		require.Equal(t, a.Appended[0].Seq, d.Appended[0].Seq)
		require.NotEqual(t, a.Appended[0].Duplicate, d.Appended[0].Duplicate, "one of the two wishes came first")
		// A copy that comes late, because the first answer was lost. And others.
		require.Equal(t, a.Appended, (<-ask(t.Context(), "id-1", "k", "key-1")).Appended)
		require.True(t, (<-ask(t.Context(), "id-3", "k", "key-1")).Appended[0].Duplicate)
		require.True(t, (<-ask(t.Context(), "id-1", "another", "key-2")).Appended[0].Duplicate, "another wish with the id of this one")
		for i := range 5000 { // it is forgotten in the end
			require.Nil(t, (<-ask(t.Context(), fmt.Sprint("id-", 10+i), "k", "key-1")).Error)
		}
		require.True(t, (<-ask(t.Context(), "id-1", "k", "key-1")).Appended[0].Duplicate)
	})
}
