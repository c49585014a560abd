package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/messages"
)

// W2 for commands: with its key a command runs once, over a handoff too, however its input is spaced.
func TestW2_ACommandWithItsKeyRunsOnce(t *testing.T) {
	s := newShared(t).start(t, "a")
	path := tenantPath(tenantOne)
	key := header(api.IdempotencyHeader, "book-1")
	require.JSONEq(t, `{"epoch":1,"output":{"seq":1}}`, string(s.post(path+"/commands/record", `{"x":[1,2]}`, key).body))
	require.JSONEq(t, `{"epoch":1,"output":{"seq":1},"duplicate":true}`, string(s.post(path+"/commands/record", `{"x":[1,2]}`, key).body))
	require.Equal(t, 204, s.post(path+"/handoff", "").status)
	require.JSONEq(t, `{"epoch":2,"output":{"seq":1},"duplicate":true}`, string(s.post(path+"/commands/record", ` { "x": [1, 2] }`, key).body))
	refused(t, s.post(path+"/commands/record", `{"x":3}`, key), 409, messages.CodeIdempotencyConflict)
	refused(t, s.post(path+"/commands/echo", `{"x":[1,2]}`, key), 409, messages.CodeIdempotencyConflict)
	require.Len(t, into[page](t, s.get(path+"/events"), 200).Events, 1)
	require.JSONEq(t, `{"epoch":2,"output":{"seq":2}}`, string(s.post(path+"/commands/record", `{"x":[1,2]}`).body))
}

// The same over a cluster: a retry at another node gets the output of the first call, whatever the input holds, and
// whichever way it travels.
func TestW2_ACommandWithItsKeyRunsOnceInTheCluster(t *testing.T) {
	nodes := startCluster(t, "a", "b")
	const input = `{"text": "<ü> & \u2028", "n": 1.0}`
	for i := range 4 {
		path, key := tenantNumber(i), header(api.IdempotencyHeader, "book-1")
		first := nodes[i%2].post(path+"/commands/record", input, key)
		require.JSONEq(t, `{"epoch":1,"output":{"seq":1}}`, string(first.body))
		for _, s := range nodes {
			again := s.post(path+"/commands/record", input, key)
			require.JSONEq(t, `{"epoch":1,"output":{"seq":1},"duplicate":true}`, string(again.body))
			require.Equal(t, state(first), state(again))
		}
	}
}
