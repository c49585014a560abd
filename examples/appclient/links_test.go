package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An application outside of the cluster links the client of NATS and nothing that a node is made of: no SQLite, no store, no
// runtime, no client of another server; so it needs no C compiler.
func TestLinksNoNode(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	var ours []string
	for line := range strings.Lines(string(out)) {
		pkg := strings.TrimSpace(line)
		for _, not := range []string{"go-sqlite3", "protoactor", "nats-io/nats-server", "aws/", "jackc/pgx", "go-sql-driver/"} {
			require.NotContains(t, pkg, not)
		}
		require.NotEqual(t, "database/sql", pkg) // its driver's types are values, and link nothing
		if name, ok := strings.CutPrefix(pkg, "github.com/leasehold/leasehold/"); ok {
			ours = append(ours, name)
		}
	}
	require.Equal(t, []string{"messages", "internal/smallfile", "stores/nats/natsconn", "actors/client", "examples/appclient"}, ours)

	build := exec.CommandContext(t.Context(), "go", "build", "-o", t.TempDir()+"/appclient", ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	out, err = build.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
