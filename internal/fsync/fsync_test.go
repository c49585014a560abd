package fsync_test

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/fsync"
)

func TestMkdirAll_ReturnsWhatItCreated(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b", "c")
	created, err := fsync.MkdirAll(deep, 0o700)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(root, "a"), filepath.Join(root, "a", "b"), deep}, created)
	info, err := os.Stat(deep)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	again, err := fsync.MkdirAll(deep, 0o700)
	require.NoError(t, err)
	require.Empty(t, again)
	require.NoError(t, os.WriteFile(filepath.Join(root, "a", "file"), nil, 0o600))
	require.NoError(t, fsync.Remove(created), "what others have put there stays")
	require.NoDirExists(t, filepath.Join(root, "a", "b"))
	require.FileExists(t, filepath.Join(root, "a", "file"))
}

func TestMkdirAll_LeavesNothingWhenItFails(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, bad := range []string{file, filepath.Join(file, "x", "y")} {
		created, err := fsync.MkdirAll(bad, 0o700)
		require.ErrorIs(t, err, syscall.ENOTDIR)
		require.Empty(t, created)
	}
	long := filepath.Join(root, "new", string(make([]byte, 300)))
	_, err := fsync.MkdirAll(long, 0o700)
	require.Error(t, err)
	require.NoDirExists(t, filepath.Join(root, "new"))
}

// Folders above that this process may pass but not read are somebody else's.
func TestMkdirAll_BelowAFolderThatCannotBeRead(t *testing.T) {
	outer := filepath.Join(t.TempDir(), "outer")
	inner := filepath.Join(outer, "inner")
	require.NoError(t, os.MkdirAll(inner, 0o700))
	require.NoError(t, os.Chmod(outer, 0o100))
	t.Cleanup(func() { require.NoError(t, os.Chmod(outer, 0o700)) })
	_, err := fsync.MkdirAll(filepath.Join(inner, "x"), 0o700)
	require.NoError(t, err)
}

func TestMkdirAll_SeveralAtOnce(t *testing.T) {
	deep := filepath.Join(t.TempDir(), "a", "b", "c", "d")
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, err := fsync.MkdirAll(deep, 0o700); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.DirExists(t, deep)
}
