package dir

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// syncs records the fsyncs of a store, as paths below its root ("temp" for a temporary file).
type syncs struct {
	mu    sync.Mutex
	paths []string
}

func watch(s *Store) *syncs {
	w := &syncs{}
	s.synced = func(path string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		rel, err := filepath.Rel(s.root, path)
		if err != nil {
			rel = err.Error()
		}
		if strings.HasPrefix(rel, tempName) {
			rel = "temp"
		}
		w.paths = append(w.paths, rel)
	}
	return w
}

func (w *syncs) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	paths := w.paths
	w.paths = nil
	return paths
}

func openStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Root: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// A put syncs the file before it has a name, and then every folder up to the root, innermost first: any
// of them may be new. One that finds the object there syncs the folders too, because whoever put it may
// have died before that.
func TestF_APutIsSyncedFromTheFileToTheRoot(t *testing.T) {
	s := openStore(t)
	w := watch(s)
	_, err := s.PutIfAbsent(t.Context(), "a/b/object", []byte("x"))
	require.NoError(t, err)
	require.Equal(t, []string{"temp", "a/b", "a", "."}, w.take())

	_, err = s.PutIfAbsent(t.Context(), "a/b/object", []byte("y"))
	require.NoError(t, err)
	require.Equal(t, []string{"a/b", "a", "."}, w.take())
}

func TestF_ADeleteIsSynced(t *testing.T) {
	s := openStore(t)
	for _, key := range []string{"a/b/c/1", "a/b/c/2", "a/b/3", "a/x"} {
		_, err := s.PutIfAbsent(t.Context(), key, nil)
		require.NoError(t, err)
	}
	w := watch(s)
	_, err := s.Delete(t.Context(), "a/b/c/1")
	require.NoError(t, err)
	require.Equal(t, "a/b/c", w.take()[0])
	_, err = s.DeletePrefix(t.Context(), "a/b/")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "."}, w.take(), "a/b is gone, and so is what was below it")
}

func TestF_WithoutSyncNothingIsSynced(t *testing.T) {
	s, err := Open(t.Context(), Config{Root: t.TempDir(), NoSync: true})
	require.NoError(t, err)
	w := watch(s)
	_, err = s.PutIfAbsent(t.Context(), "a/b", nil)
	require.NoError(t, err)
	require.Empty(t, w.take())
	require.NoError(t, s.Close())
}

// gate stops the store at the sync of one path.
func gate(s *Store, at string) (reached, open chan struct{}) {
	reached, open = make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.synced = func(path string) {
		if strings.HasPrefix(path, at) {
			once.Do(func() {
				close(reached)
				<-open
			})
		}
	}
	return reached, open
}

// An answer that was lost while the folder was being synced is settled by reading back; what Get returns
// then is durable, because Get waits for that sync.
func TestF_GetWaitsForTheSync(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), Config{Root: root})
		require.NoError(t, err)
		reached, open := gate(s, filepath.Join(root, "a"))
		ctx, cancel := context.WithCancel(t.Context())
		lost := make(chan error)
		go func() {
			_, err := s.PutIfAbsent(ctx, "a/object", []byte("x"))
			lost <- err
		}()
		<-reached
		cancel()
		require.ErrorIs(t, <-lost, context.Canceled, "the caller does not wait for a disk that hangs")

		short, cancel := context.WithCancel(t.Context())
		got := make(chan []byte)
		get := func(ctx context.Context) {
			data, _, err := s.Get(ctx, "a/object", 1<<30)
			if err != nil && ctx.Err() == nil {
				t.Errorf("get: %v", err)
			}
			got <- data
		}
		go get(short)
		synctest.Wait()
		cancel()
		require.Nil(t, <-got)

		go get(t.Context())
		synctest.Wait() // every goroutine of the bubble waits now
		select {
		case <-got:
			t.Error("Get did not wait")
		default:
		}
		close(open)
		require.Equal(t, "x", string(<-got))
		require.NoError(t, s.Close())
	})
}

// A caller whose context ends while the bytes are synced leaves nothing.
func TestF_AContextThatEndsDuringTheSyncLeavesNothing(t *testing.T) {
	s := openStore(t)
	reached, open := gate(s, s.temp.path)
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan error)
	go func() {
		_, err := s.PutIfAbsent(ctx, "a/object", []byte("x"))
		lost <- err
	}()
	<-reached
	cancel()
	require.ErrorIs(t, <-lost, context.Canceled)
	close(open)
	keys, err := s.List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, keys)
	files, err := filepath.Glob(filepath.Join(s.temp.path, "*"))
	require.NoError(t, err)
	require.Empty(t, files)
}
