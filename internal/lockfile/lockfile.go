// Package lockfile holds files that only one may hold at a time, on this machine.
package lockfile

import (
	"errors"
	"os"
	"syscall"
)

// Take opens and locks a file; flags are those of os.OpenFile beside O_RDWR. ok is false if somebody else holds it, or has removed it in the
// meantime: then nothing is open. The lock ends when the file is closed, or the process dies, however it dies. Whoever holds the lock
// may remove the file. It is safe for concurrent use.
func Take(name string, flags int) (f *os.File, ok bool, err error) {
	f, err = os.OpenFile(name, os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, false, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = nil
		}
		return nil, false, errors.Join(err, f.Close())
	}
	mine, err1 := f.Stat()
	named, err2 := os.Stat(name)
	if err1 != nil || err2 != nil || !os.SameFile(mine, named) {
		return nil, false, f.Close()
	}
	return f, true, nil
}
