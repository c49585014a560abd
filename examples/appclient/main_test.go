package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What it does in a cluster, the README shows and docs.TestThreeTerminals runs. Here: it says what is wrong.
func TestAppclient_SaysWhatIsWrong(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "appclient")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	nobody, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := nobody.Addr().String()
	require.NoError(t, nobody.Close())
	for says, args := range map[string][]string{
		"usage: appclient": {}, "invalid_argument": {"http://" + address}, "unavailable": {"nats://" + address},
	} {
		out, err := exec.CommandContext(t.Context(), bin, args...).CombinedOutput()
		var failed *exec.ExitError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 1, failed.ExitCode())
		require.Contains(t, string(out), says)
	}
}
