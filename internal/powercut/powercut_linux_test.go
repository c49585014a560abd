package powercut_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/powercut"
)

const childEnv = "LEASEHOLD_POWERCUT_CHILD"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childEnv); folder != "" {
		if err := child(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child does, in this order, what the test knows the outcome of.
func child(folder string) error {
	in := func(name string) string { return filepath.Join(folder, name) }
	write := func(name, text string, sync ...string) error {
		f, err := os.OpenFile(in(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		for range sync {
			err = errors.Join(err, f.Sync())
		}
		return errors.Join(err, f.Close())
	}
	sync := func(name string) error {
		f, err := os.Open(in(name))
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}
	return errors.Join(
		os.Mkdir(in("folder"), 0o700),
		write("folder/both", "content", "synced"),
		write("folder/name only", "lost"),
		sync("folder"),
		write("folder/content only", "content", "synced"),
		write("lost", "lost"),
		sync("."),
		write("folder/both", "newer"), // not synced
		os.Rename(in("lost"), in("renamed")),
		os.Link(in("folder/both"), in("folder/linked")),
		// The number of a file that is deleted is not taken for that of the next one.
		os.Remove(in("folder/content only")),
		write("after", "not synced"),
		sync("."),
	)
}

func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			found[path] = "folder"
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, path))
		found[path] = string(text)
		return err
	}))
	return found
}

func TestRecorder_ForgetsWhatWasNotSynced(t *testing.T) {
	folder := t.TempDir()
	rec := powercut.RecordSelf(t, childEnv+"="+folder, folder)
	var paths []string
	for _, s := range rec.Syncs() {
		paths = append(paths, s.Path)
	}
	require.Equal(t, []string{"folder/both", "folder", "folder/content only", ".", "."}, paths)
	for n, want := range map[int]map[string]string{
		0: {".": "folder"},
		3: {".": "folder"},
		4: {".": "folder", "folder": "folder", "folder/both": "content", "folder/name only": "", "lost": ""},
		5: {".": "folder", "folder": "folder", "folder/both": "content", "folder/name only": "", "renamed": "", "after": ""},
	} {
		after := t.TempDir()
		require.NoError(t, rec.Write(rec.Syncs()[:n], after))
		require.Equal(t, want, tree(t, after), "after %d syncs", n)
	}
}

func TestStart_SaysWhatCannotBeStarted(t *testing.T) {
	_, err := powercut.Start(exec.Command(filepath.Join(t.TempDir(), "no-such")), t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = powercut.Start(exec.Command(os.Args[0]), filepath.Join(t.TempDir(), "no-such"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
