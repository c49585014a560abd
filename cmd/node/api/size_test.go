package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/messages"
)

// sized returns the body of an append that carries so many bytes.
func sized(t *testing.T, bytes int) string {
	t.Helper()
	var events []messages.Event
	for n := 0; n < bytes; {
		e := messages.Event{Kind: "k"}
		payload := min(messages.MaxPayloadBytes, bytes-n-e.Size())
		if rest := bytes - n - e.Size() - payload; rest > 0 && rest < 1000 {
			payload -= 1000 // so that the last one has room for itself
		}
		e.Payload = json.RawMessage(`"` + strings.Repeat("x", payload-2) + `"`)
		n += e.Size()
		events = append(events, e)
	}
	data, err := messages.EncodeWire(map[string]any{"events": events})
	require.NoError(t, err)
	return string(data)
}

// A request has one limit, whichever node is asked and whichever is the owner: what one of them takes, all take.
func TestCluster_ARequestHasTheSameLimitAtEveryNode(t *testing.T) {
	nodes := startClusterWith(t, func(c *setup) { c.api.MaxBody, c.api.RequestTimeout = 16<<20, 5*time.Minute }, "a", "b")
	largest, over := sized(t, messages.MaxRequestBytes), sized(t, messages.MaxRequestBytes+1)
	for n, s := range nodes {
		first := s.post(tenantNumber(1)+"/events", largest)
		require.Equal(t, 200, first.status, "%.300s", first.body)
		require.Equal(t, "1", first.header.Get(api.EpochHeader), "one owner for both, so that one of them has forwarded it")
		require.EqualValues(t, n*8+1, into[appended](t, first, 200).Events[0].Seq)
		refused(t, s.post(tenantNumber(1)+"/events", over), 413, messages.CodeTooLarge)
		refused(t, s.post(tenantNumber(1)+"/commands/echo", `"`+strings.Repeat("x", messages.MaxRequestBytes)+`"`), 413, messages.CodeTooLarge)
	}
}
