package dir_test

import "syscall"

// mountSmall mounts a file system of 1 MiB. It needs to be root, and allowed to.
func mountSmall(path string) error {
	return syscall.Mount("tmpfs", path, "tmpfs", 0, "size=1m")
}
