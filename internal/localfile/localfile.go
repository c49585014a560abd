// Package localfile says what the operating system has against a file: a failure in words that an operator can do something
// about, and whether a path is too long before anything is created there.
//
// A newcomer starts with [Cause].
package localfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// The causes that have a name. They hold no path and no number, so that they may be told to clients.
const (
	NoDescriptors        = "no descriptors left in this process (ulimit -n)"
	NoMachineDescriptors = "no descriptors left on this machine"
	NoInodes             = "no inodes left"
	DiskFull             = "the disk is full"
	QuotaUsedUp          = "a quota is used up"
	FileTooLarge         = "the file is larger than this process or the file system allows (ulimit -f)"
	PathTooLong          = "the path is too long"
	ReadOnly             = "the file system is read-only"
	NoPermission         = "no permission"
	TooManyLinks         = "too many symbolic links"
	NoProcesses          = "no processes left (ulimit -u)"
	NoMemory             = "no memory left"
	DeviceFailed         = "the device failed"
)

// FewInodes is how many inodes must be left on a disk: what a tenant needs that was never there, rounded up.
const FewInodes = 16

// Cause returns what the system call that err is of failed for, in words, or "" if that has no name here. Whether a disk has no
// room or no inodes is asked of the file system, at the path that err names. It may be called on any goroutine.
func Cause(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return ""
	}
	switch errno {
	case syscall.EMFILE:
		return NoDescriptors
	case syscall.ENFILE:
		return NoMachineDescriptors
	case syscall.ENOSPC:
		// Which of both it was the kernel does not tell. Files that the caller has removed since have given theirs back.
		if op, path := callOf(err); op != "write" && op != "sync" && LacksInodes(path) {
			return NoInodes
		}
		return DiskFull
	case syscall.EDQUOT:
		return QuotaUsedUp
	case syscall.EFBIG:
		return FileTooLarge
	case syscall.ENAMETOOLONG:
		return PathTooLong
	case syscall.EROFS:
		return ReadOnly
	case syscall.EACCES, syscall.EPERM:
		return NoPermission
	case syscall.ELOOP:
		return TooManyLinks
	case syscall.ENOMEM:
		return NoMemory
	case syscall.EIO:
		return DeviceFailed
	case syscall.EAGAIN:
		var at *fs.PathError
		if errors.As(err, &at) && at.Op == "fork/exec" { // else it is a lock
			return NoProcesses
		}
	}
	return ""
}

// Because returns message with the cause of err behind it, if that has a name.
func Because(message string, err error) string {
	if cause := Cause(err); cause != "" {
		return message + ": " + cause
	}
	return message
}

// LacksInodes reports whether the file system of path, which need not exist, has room for data, and fewer inodes than FewInodes.
// It is false where the file system does not say, or does not bound them.
func LacksInodes(path string) bool {
	if path == "" {
		return false
	}
	var fs syscall.Statfs_t
	for syscall.Statfs(path, &fs) != nil {
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
	return fs.Files > 0 && fs.Ffree < FewInodes && fs.Bavail > 0
}

// callOf returns what failed, and on which path; "": err does not say.
func callOf(err error) (op, path string) {
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &link):
		return link.Op, link.New
	case errors.As(err, &at):
		return at.Op, at.Path
	}
	return "", ""
}
