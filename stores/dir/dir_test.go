package dir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
)

func TestOpen_RefusesWhatCannotWork(t *testing.T) {
	_, err := dir.Open(t.Context(), dir.Config{})
	require.ErrorIs(t, err, messages.ErrInvalidArgument)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, root := range []string{file, filepath.Join(file, "below")} {
		_, err = dir.Open(t.Context(), dir.Config{Root: root})
		require.ErrorIs(t, err, messages.ErrStorage, root)
	}
	// /proc takes no files, whoever asks.
	_, err = dir.Open(t.Context(), dir.Config{Root: "/proc/leasehold"})
	require.ErrorIs(t, err, messages.ErrStorage)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = dir.Open(ctx, dir.Config{Root: t.TempDir()})
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
}

func TestF_AKeyIsAnObjectOrAFolder(t *testing.T) {
	store := open(t, dir.Config{})
	created, err := store.PutIfAbsent(t.Context(), "a/b", []byte("x"))
	require.NoError(t, err)
	require.True(t, created)
	for _, key := range []string{"a", "a/b/c", "a/b/c/d"} {
		_, err := store.PutIfAbsent(t.Context(), key, []byte("y"))
		require.ErrorIs(t, err, messages.ErrOutOfRange, key)
		require.Equal(t, key, messages.AsError(err).Object)
	}
	n, err := store.DeletePrefix(t.Context(), "a/b/")
	require.NoError(t, err)
	require.Zero(t, n)
	data, ok, err := store.Get(t.Context(), "a/b", 1<<30)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "x", string(data))
}

// What is none of ours in the directory is neither listed nor deleted.
func TestF_ForeignFilesAreLeftAlone(t *testing.T) {
	root := t.TempDir()
	store := open(t, dir.Config{Root: root})
	_, err := store.PutIfAbsent(t.Context(), "a/object", []byte("x"))
	require.NoError(t, err)
	for _, name := range []string{"a/.hidden", "a/a b", "lost+found!", "a/é"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte("mine"), 0o600))
	}
	keys, err := store.List(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []string{"a/object"}, keys)
	n, err := store.DeletePrefix(t.Context(), "a/")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.FileExists(t, filepath.Join(root, "a/.hidden"))
}

// What has the name of an object and is no file is neither followed nor overlooked: every operation that meets it names it.
func TestF_AnObjectThatIsNoFile(t *testing.T) {
	elsewhere := t.TempDir()
	secret := filepath.Join(elsewhere, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	for name, plant := range map[string]func(path string) error{
		"link":     func(path string) error { return os.Symlink(secret, path) },
		"dangling": func(path string) error { return os.Symlink(filepath.Join(elsewhere, "none"), path) },
		"device":   func(path string) error { return os.Symlink("/dev/zero", path) },
		"pipe":     func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			store := open(t, dir.Config{Root: root})
			_, err := store.PutIfAbsent(t.Context(), "a/object", []byte("x"))
			require.NoError(t, err)
			key := "a/" + name
			require.NoError(t, plant(filepath.Join(root, key)))
			want := "a symbolic link"
			if name == "pipe" {
				want = "no regular file"
			}
			refused := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, messages.ErrCorrupt)
				require.ErrorContains(t, err, want)
				require.Equal(t, key, messages.AsError(err).Object)
			}
			keys, err := store.List(t.Context(), "")
			require.NoError(t, err)
			require.ElementsMatch(t, []string{key, "a/object"}, keys, "a list does not hide that the name is taken")
			_, ok, err := store.Get(t.Context(), key, 1<<20)
			require.False(t, ok)
			refused(err)
			_, err = store.PutIfAbsent(t.Context(), key, []byte("x"))
			refused(err)
			_, err = store.Delete(t.Context(), key)
			refused(err)
			_, err = store.DeletePrefix(t.Context(), "a/")
			refused(err)
			require.FileExists(t, secret)
		})
	}
	root := t.TempDir()
	store := open(t, dir.Config{Root: root})
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(root, "acme")))
	_, err := store.List(t.Context(), "")
	require.ErrorContains(t, err, "object=acme: the object is a symbolic link", "a list without what is below would not be one")
}

func TestF5_EmptyFoldersGo(t *testing.T) {
	root := t.TempDir()
	store := open(t, dir.Config{Root: root})
	for _, key := range []string{"a/b/c/one", "a/b/c/two", "a/x"} {
		_, err := store.PutIfAbsent(t.Context(), key, nil)
		require.NoError(t, err)
	}
	_, err := store.Delete(t.Context(), "a/b/c/one")
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(root, "a/b/c"))
	_, err = store.Delete(t.Context(), "a/b/c/two")
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(root, "a/b"))
	require.DirExists(t, filepath.Join(root, "a"))
	_, err = store.DeletePrefix(t.Context(), "a/")
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(root, "a"))
	require.DirExists(t, root)
}

// endsAt is a context that ends when it is asked for the n-th time: between two chunks of a large object.
type endsAt struct {
	context.Context
	mu   sync.Mutex
	left int
}

func (c *endsAt) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestF_AContextThatEndsLeavesNothing(t *testing.T) {
	root := t.TempDir()
	store := open(t, dir.Config{Root: root})
	data := make([]byte, 5<<20)
	cut := 0
	for n := 0; ; n++ {
		key := fmt.Sprintf("cut/%d", n)
		created, err := store.PutIfAbsent(&endsAt{Context: t.Context(), left: n}, key, data)
		if err == nil {
			require.True(t, created)
			break
		}
		cut++
		require.False(t, created)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		require.ErrorIs(t, err, context.Canceled)
		_, there, err := store.Get(t.Context(), key, 1<<30)
		require.NoError(t, err)
		require.False(t, there)
		require.Equal(t, 1, temporaries(t, root))
	}
	require.GreaterOrEqual(t, cut, 5)

	for n := range 3 {
		_, _, err := store.Get(&endsAt{Context: t.Context(), left: n}, fmt.Sprintf("cut/%d", cut), 1<<30)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		_, err = store.List(&endsAt{Context: t.Context(), left: n % 2}, "")
		require.ErrorIs(t, err, messages.ErrUnavailable)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Delete(ctx, fmt.Sprintf("cut/%d", cut))
	require.ErrorIs(t, err, messages.ErrUnavailable)
	_, err = store.DeletePrefix(ctx, "cut/")
	require.ErrorIs(t, err, messages.ErrUnavailable)
	keys, err := store.List(t.Context(), "cut/")
	require.NoError(t, err)
	require.Len(t, keys, 1)
}

func TestClose_RefusesWhatComesAfter(t *testing.T) {
	root := t.TempDir()
	store, err := dir.Open(t.Context(), dir.Config{Root: root})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.NoError(t, store.Close())
	_, err = store.PutIfAbsent(t.Context(), "a", nil)
	require.ErrorIs(t, err, messages.ErrClosed)
	_, err = store.List(t.Context(), "")
	require.ErrorIs(t, err, messages.ErrClosed)
	require.Equal(t, 0, temporaries(t, root))
}

// A list reads the folder that its prefix names, and not the whole tree.
func TestF4_AListReadsOnlyItsFolder(t *testing.T) {
	root := t.TempDir()
	store := open(t, dir.Config{Root: root})
	_, err := store.PutIfAbsent(t.Context(), "big/e1/snap-1", nil)
	require.NoError(t, err)
	ctx := &endsAt{Context: t.Context(), left: 1000}
	for i := range 50 {
		_, err := store.PutIfAbsent(t.Context(), fmt.Sprintf("other/%d/object", i), nil)
		require.NoError(t, err)
	}
	_, err = store.List(ctx, "big/e1/snap-")
	require.NoError(t, err)
	require.LessOrEqual(t, 1000-ctx.left, 3, "the context is asked once for each folder")
	_, err = store.List(ctx, "")
	require.NoError(t, err)
	require.Greater(t, 1000-ctx.left, 50)
}

// Folders vanish under a put all the time, at every depth: it makes them again, and neither fails nor
// says "already there".
func TestF5_PutsBesideDeletesOfTheirFolders(t *testing.T) {
	store := open(t, dir.Config{NoSync: true})
	const writers, puts = 4, 150
	var writing, deleting sync.WaitGroup
	done := make(chan struct{})
	deleted := make([]int, 2)
	for w := range writers {
		writing.Go(func() {
			for i := range puts {
				created, err := store.PutIfAbsent(t.Context(), fmt.Sprintf("a/b/c/d/w%d-%d", w, i), []byte("x"))
				if err != nil || !created {
					t.Errorf("put %d of writer %d: created %t, %v", i, w, created, err)
					return
				}
			}
		})
	}
	for d, prefix := range []string{"a/", "a/b/c/d/"} {
		deleting.Go(func() {
			for {
				n, err := store.DeletePrefix(t.Context(), prefix)
				deleted[d] += n
				if err != nil {
					t.Errorf("delete of %s: %v", prefix, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writing.Wait()
	close(done)
	deleting.Wait()
	keys, err := store.List(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, writers*puts, deleted[0]+deleted[1]+len(keys))
}
