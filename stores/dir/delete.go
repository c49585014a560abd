package dir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/leasehold/leasehold/stores"
)

// Delete implements stores.DurableStore. A delete that reported success survives a power cut.
func (s *Store) Delete(ctx context.Context, key string) (bool, error) {
	if err := stores.ValidateObjectKey(key); err != nil {
		return false, err
	}
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	deleted, err := unlink(s.path(key), key)
	if err != nil {
		return false, storageError(err, key, "cannot delete the object")
	}
	if !deleted {
		return false, nil
	}
	return true, s.settle(ctx, filepath.Dir(s.path(key)), key)
}

// DeletePrefix implements stores.DurableStore. If it fails in the middle, count says how many are gone.
func (s *Store) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	if err := stores.ValidateDeletePrefix(prefix); err != nil {
		return 0, err
	}
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	count := 0
	err := s.walk(ctx, prefix, "", func(key string) error {
		deleted, err := unlink(s.path(key), key)
		if err != nil {
			return storageError(err, key, "cannot delete the object")
		}
		if deleted {
			count++
		}
		return nil
	}, func(folder string) error {
		if folder == prefix {
			return nil // settle does it, and what is above it
		}
		// A folder that is gone is synced with the one above it.
		if removed, err := removeEmpty(s.path(folder)); removed || err != nil {
			return err
		}
		if err := s.syncDir(s.path(folder)); err != nil && !isAbsent(err) {
			return storageError(err, folder, "cannot sync a folder")
		}
		return nil
	})
	if err != nil {
		return count, err
	}
	return count, s.settle(ctx, s.path(prefix), prefix)
}

// settle removes dir and the folders above it as far as they are empty, and syncs the first that stays.
func (s *Store) settle(ctx context.Context, dir, object string) error {
	for dir != s.root {
		removed, err := removeEmpty(dir)
		if err != nil {
			return unknownError(err, object, "cannot remove an empty folder")
		}
		if !removed {
			break
		}
		dir = filepath.Dir(dir)
	}
	if err := s.await(ctx, func() error { return s.syncUp(dir) }); err != nil {
		return unknownError(err, object, "deleted, but the folder could not be synced")
	}
	return nil
}

// unlink removes the file of an object, and never a folder, as os.Remove would.
func unlink(path, key string) (bool, error) {
	if info, err := os.Lstat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return false, foreign(key, info.Mode()) // its bytes are elsewhere, and would stay
	}
	for {
		err := syscall.Unlink(path)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case isAbsent(err):
			return false, nil
		case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EPERM):
			if info, serr := os.Lstat(path); serr == nil && info.IsDir() {
				return false, nil
			}
		}
		return false, &os.PathError{Op: "unlink", Path: path, Err: err}
	}
}

// removeEmpty removes a folder if it is empty, and reports whether it is gone.
func removeEmpty(path string) (bool, error) {
	for {
		err := syscall.Rmdir(path)
		switch {
		case err == nil || errors.Is(err, os.ErrNotExist):
			return true, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ENOTDIR):
			return false, nil
		}
		return false, &os.PathError{Op: "rmdir", Path: path, Err: err}
	}
}
