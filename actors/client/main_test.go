package client_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A program outside the cluster links neither a node nor a store nor a server.
func TestImports_NothingOfANode(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/leasehold/leasehold/actors/client").Output()
	require.NoError(t, err)
	var own []string
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		if short, ok := strings.CutPrefix(dep, "github.com/leasehold/leasehold/"); ok {
			own = append(own, short)
		}
		for _, heavy := range []string{"sqlite", "jetstream", "nats-server", "protoactor", "aws", "pgx"} {
			require.NotContains(t, dep, heavy)
		}
	}
	require.Equal(t, []string{"messages", "internal/smallfile", "stores/nats/natsconn", "actors/client"}, own)
}
