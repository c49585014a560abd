// Package fsync makes names survive a power cut. A file that was synced is lost all the same if the folder that names it was
// not, or the folder that names that folder. Its functions are safe for concurrent use.
package fsync

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Folder syncs a folder, so that the names in it survive a power cut.
func Folder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// MkdirAll is os.MkdirAll for a folder that survives a power cut once it returns, and returns the folders that it created, the innermost
// last. If it fails, it removes them again.
//
// It syncs all folders above, up to the root of the file system, whether they were missing or not: whoever created one a moment ago may
// not have synced it yet, or may have died before that. Folders that were there and that this process may not
// read are left out, and so are those of file systems that sync no folders.
func MkdirAll(dir string, mode fs.FileMode) (created []string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, Remove(created))
			created = nil
		}
	}()
	var above []string // the innermost first
	for d := dir; ; d = filepath.Dir(d) {
		above = append(above, d)
		if d == filepath.Dir(d) {
			break
		}
	}
	for _, d := range slices.Backward(above) {
		err := os.Mkdir(d, mode)
		if err == nil {
			created = append(created, d)
			continue
		}
		if info, statErr := os.Stat(d); statErr != nil {
			return created, err
		} else if !info.IsDir() {
			return created, &os.PathError{Op: "mkdir", Path: d, Err: syscall.ENOTDIR}
		}
	}
	for i, d := range above[1:] {
		if mountPoint(above[i], d) {
			break
		}
		if err := Folder(d); err != nil && (slices.Contains(created, above[i]) || !excused(err)) {
			return created, err
		}
	}
	return created, nil
}

// Remove removes the folders that MkdirAll created, as far as nobody has put anything into them meanwhile.
func Remove(created []string) error {
	for _, d := range slices.Backward(created) {
		switch err := os.Remove(d); {
		case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// mountPoint reports whether a file system begins at dir, so that its name is not one of those that were created.
func mountPoint(dir, parent string) bool {
	a, err1 := os.Stat(dir)
	b, err2 := os.Stat(parent)
	if err1 != nil || err2 != nil {
		return false
	}
	inner, ok1 := a.Sys().(*syscall.Stat_t)
	outer, ok2 := b.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && inner.Dev != outer.Dev
}

func excused(err error) bool {
	for _, e := range []error{fs.ErrPermission, syscall.EINVAL, syscall.ENOTSUP, syscall.EROFS, fs.ErrNotExist} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
