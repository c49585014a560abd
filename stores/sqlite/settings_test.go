package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The settings that make a granted operation survive a power cut are those of the connections in use.
func TestOpen_SyncsEveryCommitUnlessToldNotTo(t *testing.T) {
	for _, tt := range []struct {
		noSync bool
		want   int // 2: FULL, 0: OFF
	}{{false, 2}, {true, 0}} {
		s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "leases.db"), NoSync: tt.noSync})
		require.NoError(t, err)
		var synchronous, queryOnly int
		var mode string
		require.NoError(t, s.writer.QueryRow(`PRAGMA synchronous`).Scan(&synchronous))
		require.NoError(t, s.writer.QueryRow(`PRAGMA journal_mode`).Scan(&mode))
		require.NoError(t, s.reader.QueryRow(`PRAGMA query_only`).Scan(&queryOnly))
		require.Equal(t, tt.want, synchronous)
		require.Equal(t, "wal", mode)
		require.Equal(t, 1, queryOnly)
		require.NoError(t, s.Close())
	}
}
