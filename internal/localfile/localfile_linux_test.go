package localfile_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// What the operating system says itself.
func TestQ7_CausesOfRealFailures(t *testing.T) {
	folder := t.TempDir()
	write := func(path string) error { return os.WriteFile(path, make([]byte, 64<<10), 0o600) }

	loop := filepath.Join(folder, "loop")
	require.NoError(t, os.Symlink(loop, loop))
	require.Equal(t, localfile.TooManyLinks, localfile.Cause(write(loop)))
	require.Equal(t, localfile.PathTooLong, localfile.Cause(write(filepath.Join(folder, strings.Repeat("n", 256)))))
	require.Equal(t, localfile.ReadOnly, localfile.Cause(write(filepath.Join(storetest.SmallDisk(t, "1m", syscall.MS_RDONLY), "file"))))

	small := storetest.SmallDisk(t, "1m", 0)
	require.NoError(t, os.WriteFile(filepath.Join(small, "target"), nil, 0o600))
	var err error
	for err == nil {
		var f *os.File
		f, err = os.CreateTemp(small, "")
		require.NoError(t, err, "there are inodes")
		_, err = f.Write(make([]byte, 64<<10))
		_ = f.Close()
	}
	require.Equal(t, localfile.DiskFull, localfile.Cause(err))

	few := storetest.SmallDisk(t, "8m,nr_inodes=40", 0)
	require.NoError(t, write(filepath.Join(few, "target")))
	none := filepath.Join(few, "no", "such", "file")
	for free := range 20 {
		remove := storetest.FillInodes(t, few, free)
		require.Equal(t, free < localfile.FewInodes, localfile.LacksInodes(none), "%d left", free)
		remove()
		require.False(t, localfile.LacksInodes(none))
	}
	remove := storetest.FillInodes(t, few, 0)
	require.Equal(t, localfile.NoInodes, localfile.Cause(write(filepath.Join(few, "file"))))
	require.Equal(t, localfile.NoInodes, localfile.Cause(os.Link(filepath.Join(few, "target"), filepath.Join(few, "link"))))
	require.Equal(t, localfile.NoInodes, localfile.Cause(os.MkdirAll(filepath.Join(few, "a", "b"), 0o700)))
	remove()
	require.NoError(t, write(filepath.Join(few, "file")))

	back := storetest.FewDescriptors(t, 0)
	require.Equal(t, localfile.NoDescriptors, localfile.Cause(write(filepath.Join(folder, "file"))))
	require.Equal(t, localfile.NoDescriptors, localfile.Cause(exec.Command("true").Start()))
	back()
	require.NoError(t, write(filepath.Join(folder, "file")))
}

// What a test cannot bring about here.
func TestQ7_CausesByNumber(t *testing.T) {
	for errno, cause := range map[syscall.Errno]string{
		syscall.ENFILE: localfile.NoMachineDescriptors, syscall.EDQUOT: localfile.QuotaUsedUp, syscall.EACCES: localfile.NoPermission,
		syscall.EPERM: localfile.NoPermission, syscall.ENOMEM: localfile.NoMemory, syscall.EIO: localfile.DeviceFailed, syscall.EFBIG: localfile.FileTooLarge,
		syscall.ENOSPC: localfile.DiskFull, syscall.EAGAIN: "", syscall.ENOENT: "", 0: "",
	} {
		err := errors.Join(errors.New("another"), &fs.PathError{Op: "open", Err: errno})
		require.Equal(t, cause, localfile.Cause(err), "%v", errno)
	}
	require.Equal(t, localfile.NoProcesses, localfile.Cause(&fs.PathError{Op: "fork/exec", Err: syscall.EAGAIN}))
	require.Empty(t, localfile.Cause(errors.New("no errno")))
	require.Empty(t, localfile.Cause(nil))
	require.Equal(t, "cannot write: a quota is used up", localfile.Because("cannot write", syscall.EDQUOT))
	require.Equal(t, "cannot write", localfile.Because("cannot write", os.ErrClosed))
}

func TestQ7_PathsThatAreTooLong(t *testing.T) {
	folder := t.TempDir()
	check := func(path, below string) error { return localfile.CheckPath("the thing", path, below, 300) }
	fits := filepath.Join(folder, strings.Repeat("a", 290-len(folder)-1))
	require.NoError(t, check(fits, "/below/it3"))
	err := check(fits, "/below/it34")
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	require.Contains(t, err.Error(), "the path of the thing is too long: it has 290 bytes, and may have 289, so that those of its files have at most 300")

	// A name, whatever the length of the path.
	require.NoError(t, localfile.CheckPath("the thing", filepath.Join(folder, strings.Repeat("a", 247)), "-journal", 4095))
	err = localfile.CheckPath("the thing", filepath.Join(folder, strings.Repeat("a", 248)), "-journal", 4095)
	require.ErrorContains(t, err, "256 bytes, and may have 255")

	// A short name for a long path.
	require.NoError(t, os.MkdirAll(fits, 0o700))
	short := filepath.Join(folder, "short")
	require.NoError(t, os.Symlink(fits, short))
	require.NoError(t, check(short, "/below/it3"))
	require.Error(t, check(short, "/below/it34"))
	require.Error(t, check(filepath.Join(short, "none"), "/below"))
	require.NoDirExists(t, filepath.Join(fits, "none"))
}
