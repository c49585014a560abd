package servers_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// A server that starts leaves the temporary tables of others alone.
func TestMariaDB_HasATemporaryFolderOfItsOwn(t *testing.T) {
	common := t.TempDir()
	t.Setenv("TMPDIR", common)
	table := filepath.Join(common, "#sql-temptable-1-1-1.MAI")
	require.NoError(t, os.WriteFile(table, []byte("in use"), 0o600))
	s := servers.ForTest(t, func(ctx context.Context) (*servers.Server, error) { return servers.MariaDB(ctx) })
	defer func() { require.NoError(t, s.Stop()) }()
	require.FileExists(t, table)
}
