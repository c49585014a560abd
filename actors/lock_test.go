package actors_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

func tree(t *testing.T, folder string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		found = append(found, path)
		return err
	}))
	return found
}

func TestLockRoot_NamesWhoHoldsIt(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "b")
	lock, err := actors.LockRoot(root)
	require.NoError(t, err)
	require.Equal(t, root, lock.Root())
	_, err = actors.Start(t.Context(), actors.Config{StateRoot: root})
	require.ErrorIs(t, err, messages.ErrHeld)
	require.ErrorContains(t, err, fmt.Sprintf("process %d on the host", os.Getpid()))
	require.ErrorContains(t, err, filepath.Join(root, "node.lock"))
	// Whoever has taken it may start the node.
	node, err := actors.Start(t.Context(), actors.Config{Lock: lock})
	require.NoError(t, err)
	require.NoError(t, node.Shutdown(t.Context()))
	_, err = actors.LockRoot(root)
	require.ErrorIs(t, err, messages.ErrHeld, "the caller's lock is the caller's")
	require.NoError(t, lock.Close())
	require.NoError(t, lock.Discard(), "after Close it does nothing")
	require.FileExists(t, filepath.Join(root, "node.lock"))
	again, err := actors.LockRoot(root)
	require.NoError(t, err)
	require.NoError(t, again.Discard())
	require.FileExists(t, filepath.Join(root, "node.lock"), "it was there before")
}

func TestLockRoot_DiscardLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	lock, err := actors.LockRoot(filepath.Join(folder, "a", "b"))
	require.NoError(t, err)
	require.NoError(t, lock.Discard())
	require.Equal(t, []string{folder}, tree(t, folder))
	lock, err = actors.LockRoot(filepath.Join(folder, "a", "b"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a", "b", "somebody's"), nil, 0o600))
	require.NoError(t, lock.Discard())
	require.Equal(t, []string{folder, filepath.Join(folder, "a"), filepath.Join(folder, "a", "b"), filepath.Join(folder, "a", "b", "somebody's")}, tree(t, folder))
}

// A program that embeds a node and is refused finds its disk as it was.
func TestStart_ARefusalLeavesNothingBehind(t *testing.T) {
	folder := t.TempDir()
	served := filepath.Join(folder, "served")
	node, err := actors.Start(t.Context(), actors.Config{StateRoot: served})
	require.NoError(t, err)
	require.NoError(t, node.Shutdown(t.Context()))
	require.NoError(t, os.RemoveAll(filepath.Join(served, "durable")))
	require.NoError(t, os.Remove(filepath.Join(served, "tmp")))
	file := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	before := tree(t, folder)
	for name, c := range map[string]struct {
		root string
		ttl  time.Duration
		code messages.Code
	}{
		"a bad setting":              {filepath.Join(folder, "new"), time.Millisecond, messages.CodeOutOfRange},
		"the copies are gone":        {served, 0, messages.CodeDeploymentMismatch},
		"no folder can be made here": {filepath.Join(file, "new"), 0, messages.CodeStorage},
	} {
		_, err := actors.Start(t.Context(), actors.Config{StateRoot: c.root, TTL: c.ttl})
		require.Equal(t, c.code, messages.CodeOf(err), "%s: %v", name, err)
		require.Equal(t, before, tree(t, folder), name)
	}
}
