package dir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
)

// A directory that is deleted or replaced under a running process: the next copy fails, and so does every look, which
// would find nothing and could take that for the truth. When it is back, all goes on.
func TestK4_AReplacedDirectoryIsNoticedByTheNextCopy(t *testing.T) {
	root := filepath.Join(t.TempDir(), "copies")
	store, err := dir.Open(t.Context(), dir.Config{Root: root})
	require.NoError(t, err)
	_, err = store.PutIfAbsent(t.Context(), "a/b", []byte("x"))
	require.NoError(t, err)
	gone := func() {
		t.Helper()
		_, put := store.PutIfAbsent(t.Context(), "a/c", nil)
		_, _, get := store.Get(t.Context(), "a/b", 1<<30)
		_, list := store.List(t.Context(), "a/")
		_, deleted := store.Delete(t.Context(), "a/b")
		_, prefix := store.DeletePrefix(t.Context(), "a/")
		for _, err := range []error{put, get, list, deleted, prefix} {
			require.ErrorIs(t, err, messages.ErrUnavailable)
			require.ErrorIs(t, err, messages.ErrDeploymentMismatch)
			require.Equal(t, root, messages.AsError(err).Object)
		}
	}
	aside := root + ".aside"
	require.NoError(t, os.Rename(root, aside))
	gone()
	other, err := dir.Open(t.Context(), dir.Config{Root: root}) // another one in its place
	require.NoError(t, err)
	gone()
	require.NoError(t, other.Close())
	require.NoError(t, os.RemoveAll(root))
	require.NoError(t, os.Rename(aside, root))
	data, ok, err := store.Get(t.Context(), "a/b", 1<<30)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "x", string(data))
	require.NoError(t, store.Close())
}
