package history_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/messages"
)

// Two nodes that both acknowledge: the second one was granted the tenant in between.
func Example() {
	key := messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	h := &history.History{Trails: map[messages.Key][]messages.LeaseEntry{key: {
		{Op: messages.OpAcquire, Owner: "a#1", Epoch: 1, At: noon},
		{Op: messages.OpAcquire, Owner: "b#1", Epoch: 2, At: noon.Add(time.Minute)},
	}}}
	sent := noon.Add(2 * time.Minute)
	h.Add(history.Record{Write: &history.Write{Key: key, ID: "w1", Owner: "a#1", Sent: sent}})
	h.Add(history.Record{Write: &history.Write{Key: key, ID: "w1", Owner: "a#1", Sent: sent, Answered: sent, Outcome: history.Acked, Seq: 1}})
	for _, v := range h.Check(context.Background()) {
		fmt.Println(v.Rule, v.Text)
	}
	// Output: I3 the write w1 was acknowledged by a#1 1m0s after epoch 2 was granted to b#1
}
