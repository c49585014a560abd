package dir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// chunk is how much is written or read between two looks at the context.
const chunk = 1 << 20

// PutIfAbsent implements stores.DurableStore.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	if err := stores.ValidateObjectKey(key); err != nil {
		return false, err
	}
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	target := s.path(key)
	// A cheap look first, so that a lost race does not write an image for nothing. link decides.
	if info, err := os.Lstat(target); err == nil {
		return s.exists(ctx, key, info)
	}
	temp, err := s.writeTemp(ctx, key, data)
	if err != nil {
		return false, err
	}
	landed := s.land(key)
	err = s.link(ctx, temp, target)
	if err != nil {
		landed()
	}
	// Whether linked or not, the temporary name has done its work. If this fails, the name goes with
	// the temporary directory.
	_ = os.Remove(temp)
	switch {
	case errors.Is(err, os.ErrExist):
		info, err := os.Lstat(target)
		if err != nil && !isAbsent(err) {
			return false, storageError(err, key, "cannot look at the object that is there")
		}
		return s.exists(ctx, key, info)
	case errors.Is(err, syscall.ENOTDIR):
		return false, &messages.Error{Code: messages.CodeOutOfRange, Object: key, Message: "a folder of this key is an object", Err: err}
	case err != nil:
		return false, storageError(err, key, "cannot create the object")
	}
	err = s.await(ctx, func() error {
		defer landed() // also when the caller has gone
		return s.syncUp(filepath.Dir(target))
	})
	if err != nil {
		return false, unknownError(err, key, "the object is there, but its directory could not be synced")
	}
	return true, nil
}

// exists answers a put that met something under its name. info is nil if it is gone by now.
func (s *Store) exists(ctx context.Context, key string, info os.FileInfo) (bool, error) {
	if info != nil && info.IsDir() {
		return false, &messages.Error{Code: messages.CodeOutOfRange, Object: key, Message: "this key is a folder of other objects"}
	}
	if info != nil && !info.Mode().IsRegular() {
		return false, foreign(key, info.Mode())
	}
	// "Already there" is as good as a promise to a caller that reads its own bytes back. The one who
	// created the object may not have synced it yet, or have died before that.
	if err := s.await(ctx, func() error { return s.syncUp(filepath.Dir(s.path(key))) }); err != nil {
		return false, unknownError(err, key, "the object is there, but its directory could not be synced")
	}
	return false, nil
}

// writeTemp writes and syncs a temporary file and returns its path.
func (s *Store) writeTemp(ctx context.Context, key string, data []byte) (path string, err error) {
	f, err := s.temp.create()
	if err != nil {
		return "", storageError(err, key, "cannot create a temporary file")
	}
	drop := func() { _ = os.Remove(f.Name()) }
	for len(data) > 0 {
		if ctx.Err() != nil {
			_ = f.Close()
			drop()
			return "", contextError(ctx)
		}
		n, err := f.Write(data[:min(chunk, len(data))])
		if err != nil {
			_ = f.Close()
			drop()
			return "", storageError(err, key, "cannot write the object")
		}
		data = data[n:]
	}
	// From here on the caller's bytes are not needed, and a disk that hangs need not hang the caller.
	err = s.await(ctx, func() error {
		if s.noSync {
			return f.Close()
		}
		return errors.Join(s.sync(f), f.Close())
	})
	if err == nil && ctx.Err() != nil {
		err = contextError(ctx)
	}
	if err != nil {
		drop() // which does not disturb a sync that still runs
		return "", storageError(err, key, "cannot write the object")
	}
	return f.Name(), nil
}

// link gives the temporary file its name, and makes the folders for it. A delete may remove a folder
// that is empty between two steps, any number of times: then the steps are done again.
func (s *Store) link(ctx context.Context, temp, target string) error {
	for {
		err := os.Link(temp, target)
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if _, terr := os.Lstat(temp); terr != nil {
			return terr // the store was closed, or somebody cleaned up under us
		}
		if ctx.Err() != nil {
			return contextError(ctx)
		}
		// MkdirAll says "exists" when a folder was there for its mkdir, and gone for its look at it.
		err = os.MkdirAll(filepath.Dir(target), 0o700)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
}

// await runs fn, which may hang on a disk, and returns its error, or that of the context if it ends
// first; fn then ends alone.
func (s *Store) await(ctx context.Context, fn func() error) error {
	if ctx.Done() == nil || s.noSync {
		return fn()
	}
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// syncUp syncs a directory and every one above it up to the root: any of them may have been created a
// moment ago, by this or another process. One that is gone was emptied by a delete.
func (s *Store) syncUp(dir string) error {
	for {
		if err := s.syncDir(dir); err != nil && !isAbsent(err) {
			return err
		}
		if dir == s.root {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

func (s *Store) syncDir(dir string) error {
	if s.noSync {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(s.sync(d), d.Close())
}

func (s *Store) sync(f *os.File) error {
	err := f.Sync()
	if s.synced != nil {
		s.synced(f.Name())
	}
	return err
}

// landing counts the puts of one key that may have made it visible and have not synced it yet.
type landing struct {
	puts int
	done chan struct{} // closed when puts is 0 again
}

// land announces such a put; the function that it returns says that it is over.
func (s *Store) land(key string) (landed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.landing[key]
	if l == nil {
		l = &landing{done: make(chan struct{})}
		s.landing[key] = l
	}
	l.puts++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.puts--; l.puts == 0 {
			delete(s.landing, key)
			close(l.done)
		}
	}
}
