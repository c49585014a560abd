package cluster_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/messages"
)

// Requests that wait are held in memory: many large ones must not take all of it.
func TestLargeRequestsThatWaitAreBoundedInBytes(t *testing.T) {
	f := newFleet(t)
	a := f.join("a", func(n *actors.Config, c *cluster.Config) { n.MaxRequestBytes, c.MoveTimeout = 8<<20, time.Minute })
	subjects, err := client.NewSubjects("")
	require.NoError(t, err)
	large, err := json.Marshal(messages.Request{Version: messages.WireVersion, Action: messages.ActionCall, Key: f.key(1), TimeoutMS: 60_000,
		Command: "count", Input: json.RawMessage(`"` + strings.Repeat("x", 5<<20) + `"`)})
	require.NoError(t, err)
	conn := f.connect()
	first := make(chan *natsgo.Msg, 1)
	_, err = conn.ChanSubscribe("_INBOX.first", first)
	require.NoError(t, err)

	require.Equal(t, "{}", f.said(a, "expect", "somebody", f.key(1), time.Minute))
	require.NoError(t, conn.PublishRequest(subjects.Request(a.node.Owner()), "_INBOX.first", large))
	second, err := conn.Request(subjects.Request(a.node.Owner()), large, time.Minute)
	require.NoError(t, err)
	require.Contains(t, string(second.Data), string(messages.CodeOverloaded))
	_, err = f.tenant(f.client(), 2).Append(within(t, time.Minute), messages.Event{Kind: "k"})
	require.NoError(t, err, "a small one has room")

	require.Equal(t, "{}", f.said(a, "keep", "somebody", f.key(1), time.Second))
	require.NotContains(t, string((<-first).Data), string(messages.CodeOverloaded))
	require.Eventually(t, func() bool {
		third, err := conn.Request(subjects.Request(a.node.Owner()), large, time.Minute)
		return err == nil && !strings.Contains(string(third.Data), string(messages.CodeOverloaded))
	}, time.Minute, time.Millisecond)
}
