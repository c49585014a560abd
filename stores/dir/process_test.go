package dir_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestF6_SixteenProcesses(t *testing.T) {
	root := t.TempDir()
	store := open(t, dir.Config{Root: root})
	children := make([]*process, 16)
	for i := range children {
		children[i] = start(t, "contend", root, fmt.Sprint("contender-", i))
	}
	for _, c := range children {
		require.Equal(t, "ready", c.line(t))
	}
	for round := range 5 {
		key := fmt.Sprintf("contended/%d/object", round)
		for _, c := range children {
			_, err := fmt.Fprintln(c.in, key)
			require.NoError(t, err)
		}
		winner := -1
		for i, c := range children {
			if c.line(t) == "true" {
				require.Negative(t, winner, "contenders %d and %d both created %s", winner, i, key)
				winner = i
			}
		}
		require.GreaterOrEqual(t, winner, 0, "nobody created %s", key)
		data, ok, err := store.Get(t.Context(), key, 1<<30)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, string(body(fmt.Sprint("contender-", winner))), string(data))
	}
	for _, c := range children {
		require.NoError(t, c.in.Close())
		require.NoError(t, c.cmd.Wait())
	}
	require.Equal(t, 1, temporaries(t, root), "only the test's own store is open")
}

// temporaries counts the parts of the directory for temporary files, and fails for a file in one.
func temporaries(t *testing.T, root string) int {
	t.Helper()
	parts := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(root, ".tmp"), func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			parts++
		case !strings.HasSuffix(path, ".lock"):
			t.Errorf("%s was left behind", path)
		}
		return nil
	}))
	return parts - 1
}

// A process that is killed in the middle of puts leaves whole objects, and everything it had been told is
// there; what it left in the temporary directory is never listed, and goes with the next Open.
func TestF_KilledInTheMiddleOfPuts(t *testing.T) {
	root := t.TempDir()
	leftovers, unacknowledged := 0, 0
	for round := range 12 {
		name := fmt.Sprint("round-", round)
		p := start(t, "write", root, name)
		var acknowledged []string
		for range 2 + round%4 {
			acknowledged = append(acknowledged, p.line(t))
		}
		midPut(t, root, round%4)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
		for p.out.Scan() { // what it had said before it died
			acknowledged = append(acknowledged, p.out.Text())
		}
		require.Error(t, p.cmd.Wait())
		left, err := filepath.Glob(filepath.Join(root, ".tmp", "*", "*"))
		require.NoError(t, err)
		leftovers += len(left)

		store, err := dir.Open(t.Context(), dir.Config{Root: root})
		require.NoError(t, err)
		require.Equal(t, 1, temporaries(t, root))
		keys, err := store.List(t.Context(), "killed/"+name+"/")
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(keys), len(acknowledged))
		require.LessOrEqual(t, len(keys), len(acknowledged)+1, "one put was in flight")
		unacknowledged += len(keys) - len(acknowledged)
		for _, key := range keys {
			data, ok, err := store.Get(t.Context(), key, 1<<30)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, string(body(key)), string(data), "%s is torn", key)
		}
		require.Subset(t, keys, acknowledged)
		all, err := store.List(t.Context(), "")
		require.NoError(t, err)
		for _, key := range all {
			require.True(t, strings.HasPrefix(key, "killed/"), "%s is listed", key)
		}
		require.NoError(t, store.Close())
	}
	// Or the kills would all have come between two puts, and proved nothing.
	require.Positive(t, leftovers)
	t.Logf("12 kills: %d temporary files left, and removed; %d objects whole, but not acknowledged", leftovers, unacknowledged)
}

// midPut returns at a point in the middle of a put of another process: 0, at once; 1, when its temporary file
// is there; 2, when that is full; 3, when it is gone again.
func midPut(t *testing.T, root string, point int) {
	t.Helper()
	for reached := 0; reached < point; {
		files, err := filepath.Glob(filepath.Join(root, ".tmp", "*", "*"))
		require.NoError(t, err)
		var size int64 = -1
		for _, file := range files {
			if info, err := os.Stat(file); err == nil {
				size = info.Size()
			}
		}
		switch {
		case size >= 1<<18: // it is written in one go
			reached = max(reached, 2)
		case size >= 0:
			reached = max(reached, 1)
		case reached > 0:
			reached = 3
		}
	}
}

// Open removes what dead processes left, and nothing of one that lives.
func TestF_OpenSparesTheLiving(t *testing.T) {
	root := t.TempDir()
	living := start(t, "contend", root, "living")
	require.Equal(t, "ready", living.line(t))
	dead := start(t, "contend", root, "dead")
	require.Equal(t, "ready", dead.line(t))
	require.NoError(t, dead.cmd.Process.Kill())
	require.Error(t, dead.cmd.Wait())
	require.Equal(t, 2, temporaries(t, root))

	open(t, dir.Config{Root: root})
	require.Equal(t, 2, temporaries(t, root), "the living one, and this one")
	_, err := fmt.Fprintln(living.in, "still/works")
	require.NoError(t, err)
	require.Equal(t, "true", living.line(t))
}

// A full disk refuses a put with CodeStorage and leaves nothing of it. Where this process may mount a
// small file system the disk is really full; the limit on the size of a file works everywhere.
func TestF_FullDisk(t *testing.T) {
	for _, kind := range []string{"tmpfs", "rlimit"} {
		t.Run(kind, func(t *testing.T) {
			root := t.TempDir()
			if kind == "tmpfs" {
				if err := mountSmall(root); err != nil {
					t.Logf("no mount here (%v): the limit on the size of a file stands in for it", err)
					kind = "rlimit"
				} else {
					t.Cleanup(func() { require.NoError(t, syscall.Unmount(root, 0)) })
				}
			}
			p := start(t, "full", root, kind)
			var n int
			var code, there, gerr string
			_, err := fmt.Sscan(p.line(t), &n, &code, &there, &gerr)
			require.NoError(t, err)
			require.NoError(t, p.cmd.Wait())
			require.Positive(t, n)
			require.Equal(t, []string{"storage", "false", "<nil>"}, []string{code, there, gerr})

			store, err := dir.Open(t.Context(), dir.Config{Root: root})
			require.NoError(t, err)
			defer func() { require.NoError(t, store.Close()) }()
			keys, err := store.List(t.Context(), "full/")
			require.NoError(t, err)
			require.Len(t, keys, n)
			require.Equal(t, 1, temporaries(t, root))

			// With space again, or without the limit, the same put works.
			_, err = store.Delete(t.Context(), keys[len(keys)-1])
			require.NoError(t, err)
			created, err := store.PutIfAbsent(t.Context(), fmt.Sprintf("full/%d/object", n), []byte("small"))
			require.NoError(t, err)
			require.True(t, created)
		})
	}
}

func TestF_ConformsBesideAnotherProcess(t *testing.T) {
	root := t.TempDir()
	p := start(t, "write", root, "busy")
	p.line(t)
	require.Empty(t, storetest.CheckDurable(t.Context(), open(t, dir.Config{Root: root})))
	require.NoError(t, p.cmd.Process.Kill())
	for p.out.Scan() {
	}
	require.Error(t, p.cmd.Wait())
	require.NoError(t, os.RemoveAll(filepath.Join(root, "killed")))
}
