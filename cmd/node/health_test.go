package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/examples/deploy/nats/credentials"
)

// `node health` finds the node as the node itself was configured, by flag, environment and file, and needs no token.
func TestHealth_OfARealNode(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tokens, file := filepath.Join(folder, "tokens"), filepath.Join(folder, "node.yaml")
	require.NoError(t, os.WriteFile(tokens, []byte(strings.Repeat("x", 32)+"\n"), 0o600))
	p := run(t, filepath.Join(folder, "state"), "--token-file="+tokens)
	address := strings.TrimPrefix(p.url, "http://")
	require.NoError(t, os.WriteFile(file, []byte("listen: "+address+"\nttl: 10s\n"), 0o600))
	for _, args := range [][]string{{"--listen=" + address}, {"--config=" + file}, {"--config=" + file, "--ready"}} {
		out, stderr, code := tool(t, append([]string{"health"}, args...)...)
		require.Equal(t, 0, code, stderr)
		require.Contains(t, out, `"status"`)
	}
	_, stderr, code := toolWith(t, []string{"LEASEHOLD_CONFIG=" + file}, "health")
	require.Equal(t, 0, code, stderr)
	_, stderr, code = toolWith(t, []string{"LEASEHOLD_LISTEN=" + strings.Replace(address, "127.0.0.1", "0.0.0.0", 1)}, "health")
	require.Equal(t, 0, code, stderr)
	p.terminate()
	_, stderr, code = tool(t, "health", "--listen="+address)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "the node does not answer")
	_, _, code = tool(t, "health", "--listen=nowhere")
	require.Equal(t, 2, code)
}

// Of a node with TLS it takes the node's own certificate and no other, and shows it to a node that asks for one.
func TestHealth_OverTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	plan := credentials.Plan{Servers: []string{"node", "other"}}
	require.NoError(t, plan.Write(folder))
	file := func(name string) string { return filepath.Join(folder, "servers", name) }
	// The certificates of routes are good for both sides of a connection.
	own := []string{"--tls-cert=" + file("node/server.routes.pem"), "--tls-key=" + file("node/server.routes.key")}
	other := []string{"--tls-cert=" + file("other/server.routes.pem"), "--tls-key=" + file("other/server.routes.key")}
	for name, more := range map[string][]string{"TLS": nil, "client certificates": {"--tls-client-ca=" + file("node/routes-ca.pem")}} {
		p := run(t, filepath.Join(folder, name), append(append([]string{}, own...), more...)...)
		address := "--listen=" + p.url[strings.LastIndex(p.url, "/")+1:]
		_, stderr, code := tool(t, append([]string{"health", address}, own...)...)
		require.Equal(t, 0, code, "%s: %s", name, stderr)
		_, stderr, code = tool(t, append([]string{"health", address}, other...)...)
		require.Equal(t, 1, code, name)
		require.Contains(t, stderr, "not the node's certificate", name)
		_, _, code = tool(t, "health", address)
		require.Equal(t, 1, code, name)
		p.terminate()
	}
	_, _, code := tool(t, "health", "--tls-cert="+file("none"))
	require.Equal(t, 2, code)
}
