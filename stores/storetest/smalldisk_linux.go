package storetest

import (
	"os"
	"syscall"
	"testing"
)

// SmallDisk mounts a file system of its own for a test, of a size as tmpfs takes it ("8m"), with mount flags, and returns its folder:
// for tests of a disk that is full or cannot be written to. It needs root; without, the test is skipped, and fails
// under CI=true.
func SmallDisk(t testing.TB, size string, flags uintptr) string {
	t.Helper()
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", flags, "mode=700,size="+size); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI must be able to mount a tmpfs: %v", err)
		}
		t.Skipf("no mount here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
	return folder
}
