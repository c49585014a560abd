package actors_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
)

// A full or shared /tmp is no matter: SQLite's temporary files of a node, all of its connections included, are in the state root.
func TestStart_TemporaryFilesAreInTheStateRoot(t *testing.T) {
	root := t.TempDir()
	node, err := actors.Start(t.Context(), actors.Config{StateRoot: root})
	require.NoError(t, err)
	db, err := sql.Open("sqlite3", ":memory:")
	require.NoError(t, err)
	var folder string
	require.NoError(t, db.QueryRow("PRAGMA temp_store_directory").Scan(&folder))
	require.NoError(t, db.Close())
	require.Equal(t, filepath.Join(root, "tmp"), folder)
	require.NoError(t, node.Shutdown(t.Context()))
}
