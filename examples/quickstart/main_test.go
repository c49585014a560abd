package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program runs for real, twice in one folder: the second run finds the first one's event.
func TestQuickstart(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "quickstart")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{
		"seq 1, there already: false, events: 1, first: {\"km\":12}\n",
		"seq 1, there already: true, events: 1, first: {\"km\":12}\n",
	} {
		cmd := exec.CommandContext(t.Context(), bin)
		cmd.Dir = dir
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, want, string(out))
	}
}
