package replica

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// durable is the durable store as the replica's node sees it: it takes its time for an image, records
// every upload and deletion, and archives what is deleted for the verifier.
type durable struct {
	stores.DurableStore
	dir               string // of the run
	remote            bool   // its objects are not files of the run
	images, manifests *gate
	log               *record.Writer
	slog              *slog.Logger
}

// PutIfAbsent implements stores.DurableStore. An upload that was sent arrives, also when its sender has
// given it up: a fenced predecessor's late upload is what the drill is about.
func (s *durable) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	o, err := messages.ParseObject(key)
	if err != nil {
		return s.DurableStore.PutIfAbsent(ctx, key, data)
	}
	s.write(record.Line{Kind: record.PutBegun, Key: o.Key.String(), Object: key})
	type answer struct {
		created bool
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		arrives := context.WithoutCancel(ctx)
		var way *gate
		switch o.Kind {
		case messages.ObjectImage:
			time.Sleep(ImageTakes) // this is the slow store itself
			way = s.images
		case messages.ObjectManifest:
			way = s.manifests
		}
		if way != nil {
			if err := way.enter(arrives); err != nil {
				answers <- answer{err: err}
				return
			}
			defer way.leave()
		}
		created, err := s.DurableStore.PutIfAbsent(arrives, key, data)
		l := record.Line{Kind: record.PutEnded, Key: o.Key.String(), Object: key, Created: created, Code: messages.CodeOf(err)}
		describe(&l, o, data)
		s.write(l)
		answers <- answer{created, err}
	}()
	select {
	case a := <-answers:
		return a.created, a.err
	case <-ctx.Done():
		return false, &messages.Error{Code: messages.CodeUnavailable, Object: key, Message: "no answer", Err: ctx.Err()}
	}
}

// describe adds what a small object says, so that it can be checked after retention has deleted it.
func describe(l *record.Line, o messages.Object, data []byte) {
	kind, err := messages.KindOf(data)
	if o.Kind == messages.ObjectImage || err != nil {
		return
	}
	l.Op = kind
	switch kind {
	case messages.KindBase:
		b := new(messages.Base)
		if json.Unmarshal(data, b) == nil {
			l.Base = b
		}
	case messages.KindManifest:
		m := new(messages.Manifest)
		if json.Unmarshal(data, m) == nil {
			l.Manifest = m
		}
	}
}

// archive keeps an object just before it is deleted: by a second link if it is a file, else by a copy. (Objects
// never change, so that whoever archives the same one writes the same bytes.)
func (s *durable) archive(ctx context.Context, name string) error {
	from := filepath.Join(DurableDir(s.dir), filepath.FromSlash(name))
	to := filepath.Join(ArchiveDir(s.dir), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if s.remote {
		data, ok, err := s.Get(ctx, name, math.MaxInt64)
		if err != nil || !ok {
			return err
		}
		copied, err := os.CreateTemp(ArchiveDir(s.dir), "copy-*")
		if err != nil {
			return err
		}
		defer os.Remove(copied.Name())
		_, err = copied.Write(data)
		if err = errors.Join(err, copied.Close()); err != nil {
			return err
		}
		from = copied.Name()
	}
	err := os.Link(from, to)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil // somebody else was faster: at archiving, or at deleting
	}
	return err
}

// Delete implements stores.DurableStore.
func (s *durable) Delete(ctx context.Context, key string) (bool, error) {
	if err := s.archive(ctx, key); err != nil {
		return false, &messages.Error{Code: messages.CodeUnavailable, Object: key, Message: "the drill cannot archive it", Err: err}
	}
	deleted, err := s.DurableStore.Delete(ctx, key)
	if deleted {
		s.write(record.Line{Kind: record.Deleted, Object: key, Code: messages.CodeOf(err)})
	}
	return deleted, err
}

// DeletePrefix implements stores.DurableStore, object by object.
func (s *durable) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	if err := stores.ValidateDeletePrefix(prefix); err != nil {
		return 0, err
	}
	names, err := s.List(ctx, prefix)
	if err != nil {
		return 0, err
	}
	count := 0
	for _, name := range names {
		deleted, err := s.Delete(ctx, name)
		if err != nil {
			return count, err
		}
		if deleted {
			count++
		}
	}
	return count, nil
}

func (s *durable) write(l record.Line) {
	if err := s.log.Write(l); err != nil {
		s.slog.Error("the record cannot be written", "error", err)
	}
}
