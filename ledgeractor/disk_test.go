package ledgeractor_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// fillUntilRefused appends until the disk is full, and returns what was acknowledged.
func fillUntilRefused(t *testing.T, l *ledger) (acknowledged int) {
	big := payload(`"%s"`, strings.Repeat("x", 100_000))
	for range 1000 {
		_, err := l.Append(t.Context(), []messages.Event{{Kind: "big", Payload: big}})
		if err != nil {
			requireCode(t, err, messages.CodeStorage)
			return acknowledged
		}
		acknowledged++
	}
	t.Fatal("the disk never filled up")
	return 0
}

// fullDisk is a process-wide limit on the size of files, which works everywhere; SQLite sees a failed write, as it would
// with ENOSPC. The signal that comes with it is ignored by the Go runtime. It has room for what `go test` itself writes.
const fullDisk = 8 << 20

func TestAFullDiskRefusesAndRecovers(t *testing.T) {
	l := start(t)
	l.append("first")
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	small := old
	small.Cur = fullDisk
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	restored := false
	restore := func() {
		if !restored {
			restored = true
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
		}
	}
	defer restore()
	acknowledged := fillUntilRefused(t, l)
	require.Equal(t, int64(acknowledged)+1, l.count("SELECT count(*) FROM events"), "reads go on")
	restore()
	l.append("room again")
	require.Equal(t, int64(acknowledged)+2, l.count("SELECT count(*) FROM events"), "nothing acknowledged is missing, nothing refused is there")
	l.stop()
	found, err := ledgeractor.Verify(t.Context(), l.path, testKey)
	require.NoError(t, err)
	require.EqualValues(t, acknowledged+2, found.Events)
}

// The real thing, where the test may mount one.
func TestAFullFileSystemRefusesAndRecovers(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Logf("cannot mount a tmpfs (%v): TestAFullDiskRefusesAndRecovers stands for this", err)
		return
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	l := start(t, at(filepath.Join(dir, "ledger.db")))
	ballast := filepath.Join(dir, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 500_000), 0o600))
	acknowledged := fillUntilRefused(t, l)
	require.NoError(t, os.Remove(ballast))
	l.append("room again")
	require.Equal(t, int64(acknowledged)+1, l.count("SELECT count(*) FROM events"))
	image, err := l.Cut(t.Context())
	require.NoError(t, err, "no room for a copy on this disk, but in memory")
	require.EqualValues(t, acknowledged+1, image.Events)
	requireSound(t, image)
	l.append("still serving")
	require.Equal(t, int64(acknowledged)+2, l.count("SELECT count(*) FROM events"))
	l.stop()
}

func TestACutOnAFullDiskIsMadeInMemoryAndLeavesNothingBehind(t *testing.T) {
	l := start(t)
	for range 20 {
		_, err := l.Append(t.Context(), []messages.Event{{Kind: "big", Payload: payload(`"%s"`, strings.Repeat("x", fullDisk/16))}})
		require.NoError(t, err)
	}
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	small := old
	small.Cur = fullDisk
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	tight, err := l.Cut(t.Context())
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
	require.NoError(t, err, "the copy was made in memory")
	require.NoFileExists(t, l.path+".cut")
	roomy, err := l.Cut(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 20, tight.Events)
	require.Len(t, tight.Bytes, len(roomy.Bytes))
	require.Equal(t, roomy.LastSeq, tight.LastSeq)
	requireSound(t, tight)
}

// requireSound fails unless an image is a whole ledger.
func requireSound(t *testing.T, image ledgeractor.Image) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "restored.db")
	require.NoError(t, ledgeractor.WriteImage(t.Context(), path, image.Bytes))
	sum, err := ledgeractor.Verify(t.Context(), path, testKey)
	require.NoError(t, err)
	require.Equal(t, image.Events, sum.Events)
	require.Equal(t, image.LastSeq, sum.LastSeq)
}

func TestAReadOnlyDiskIsATypedError(t *testing.T) {
	dir := t.TempDir()
	l := launch(t, at(dir)) // the name of a folder: cannot be written, whoever runs the test
	requireCode(t, (<-l.opened).Err, messages.CodeStorage)
	_, err := l.Append(t.Context(), event("x"))
	requireCode(t, err, messages.CodeStorage)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
		t.Logf("cannot mount a tmpfs: %v", err)
		return
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	l = launch(t, at(filepath.Join(dir, "ledger.db")))
	requireCode(t, (<-l.opened).Err, messages.CodeStorage)
}
