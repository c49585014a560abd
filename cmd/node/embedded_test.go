package main_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// H2 with the server inside the node: both die together, and both come back with what was acknowledged
// by the server. The tools find the running node's server by the same settings.
func TestH2_AServerInsideTheNodeSurvivesKillMinusNine(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listen := "--nats-listen=" + l.Addr().String()
	require.NoError(t, l.Close())
	root := t.TempDir()
	flags := []string{"--nats-embedded", listen, "--snapshot-every=1h", "--ttl=2s", "--margin=500ms", "--renew-every=200ms"}
	first := run(t, root, flags...)
	for i := range 3 {
		require.Equal(t, 200, first.post(path(tenantOne)+"/events", fmt.Sprintf(`{"kind":"saved-%d"}`, i)).status)
	}
	require.Equal(t, 200, first.post(path(tenantOne)+"/snapshot", "").status)
	stdout, stderr, code := tool(t, "lease", "show", "--json", "--nats-embedded", listen)
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, tenantOne)
	first.kill()

	second := run(t, root, flags...)
	require.Equal(t, []string{"saved-0", "saved-1", "saved-2"}, second.kinds(tenantOne))
	r := second.post(path(tenantOne)+"/events", `{"kind":"after"}`)
	require.JSONEq(t, `{"epoch":2,"events":[{"seq":4}]}`, string(r.body))
	second.terminate()
}
