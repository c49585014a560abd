package dir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/leasehold/leasehold/stores"
)

// Get implements stores.DurableStore. What has an object's name and is no regular file, such as a symbolic link, is CodeCorrupt. It waits for a put of this Store that has made the object visible and is
// syncing it, so that what it returns survives a power cut.
func (s *Store) Get(ctx context.Context, key string, most int64) ([]byte, bool, error) {
	if err := stores.ValidateObjectKey(key); err != nil {
		return nil, false, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	l := s.landing[key]
	s.mu.Unlock()
	if l != nil {
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, false, contextError(ctx)
		}
	}
	f, err := os.OpenFile(s.path(key), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // a pipe must not hold the reader up
	if isAbsent(err) {
		return nil, false, nil
	}
	if errors.Is(err, syscall.ELOOP) {
		return nil, false, foreign(key, fs.ModeSymlink)
	}
	if err != nil {
		return nil, false, storageError(err, key, "cannot open the object")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, storageError(err, key, "cannot read the object")
	}
	switch {
	case info.IsDir():
		return nil, false, nil
	case !info.Mode().IsRegular():
		return nil, false, foreign(key, info.Mode())
	case info.Size() > most:
		return nil, false, stores.Oversized(key, info.Size(), most)
	}
	data := make([]byte, info.Size())
	for read := 0; read < len(data); {
		if ctx.Err() != nil {
			return nil, false, contextError(ctx)
		}
		n, err := io.ReadFull(f, data[read:min(read+chunk, len(data))])
		if err != nil {
			return nil, false, storageError(err, key, "cannot read the object")
		}
		read += n
	}
	return data, true, nil
}

// List implements stores.DurableStore. It reads only the folder that the prefix names, and what is below.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	if err := stores.ValidateListPrefix(prefix); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	folder, partial := path.Split(prefix)
	var keys []string
	err := s.walk(ctx, folder, partial, func(key string) error {
		keys = append(keys, key)
		return nil
	}, nil)
	// A folder sorts as its name, a key as its text: "a-b" comes before "a/b" although "a" comes
	// before "a-b". So the order of the walk is not the order of the keys.
	slices.Sort(keys)
	return keys, err
}

// walk calls object for every key below folder ("" or ending in a slash) whose first segment below it
// begins with partial, and leave after each folder whose entries it has been through.
// What vanishes meanwhile was deleted meanwhile.
func (s *Store) walk(ctx context.Context, folder, partial string, object, leave func(key string) error) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	entries, err := os.ReadDir(s.path(folder))
	if err != nil && !isAbsent(err) {
		return storageError(err, folder, "cannot read a folder")
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, partial) || stores.ValidateObjectKey(folder+name) != nil {
			continue // the temporary directory, or a file that is none of ours
		}
		switch {
		case e.IsDir():
			err = s.walk(ctx, folder+name+"/", "", object, leave)
		case e.Type()&fs.ModeSymlink != 0 && isDir(s.path(folder+name)):
			err = foreign(folder+name, e.Type()) // what is below it would be missing
		default:
			err = object(folder + name) // whatever it is: see foreign
		}
		if err != nil {
			return err
		}
	}
	if leave != nil && !errors.Is(err, os.ErrNotExist) {
		return leave(folder)
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
