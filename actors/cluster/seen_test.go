package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// A state that never was, of another cluster or made up, does not hold a request until its deadline, whichever member is asked.
func TestAStateThatNeverWasIsRefusedAtOnce(t *testing.T) {
	f := newFleet(t)
	a, b := f.join("a"), f.join("b")
	f.see(2, a, b)
	_, err := f.tenant(a, 1).Append(within(t, time.Minute), messages.Event{Kind: "k"})
	require.NoError(t, err)
	for _, via := range []interface {
		Do(context.Context, *messages.Request) *messages.Reply
	}{a, b, f.client()} {
		for i := range 2 { // the second one is created by this
			begun := time.Now()
			reply := via.Do(within(t, 5*time.Minute), &messages.Request{Action: messages.ActionAppend, Key: f.key(i), Seen: messages.Seen{Epoch: 77, Seq: 9},
				Events: []messages.Event{{Kind: "k", IdemKey: "1"}}})
			require.Equal(t, messages.CodeHistoryLost, messages.CodeOf(reply.Error), "%v", reply.Error)
			require.EqualValues(t, 1, reply.Epoch)
			require.Less(t, time.Since(begun), time.Minute)
		}
	}
}
