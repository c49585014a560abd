package ledgeractor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/internal/fsync"
	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
)

// Image is a consistent copy of a ledger: an SQLite database file.
type Image struct {
	Bytes   []byte
	Events  int64  // rows in events
	LastSeq int64  // of the last event; 0: none
	Version uint64 // Handle.Version at that moment
}

// CutLast is Cut for the last snapshot of a holder: it works also while the fence has closed by itself, or
// because the store refused a renewal. What it returns then holds every write that was ever acknowledged, and
// none that was refused. It does not wait for the transaction that is running: without a fence that cannot be
// committed any more. A fence that was closed for any other reason (a release, a forget, a slot that was taken)
// is CodeFenced. It is for the actor that owns the ledger's lease; nothing may be acknowledged on its strength.
//
// Image.Version is a lower bound: a commit that was just being decided may be in the image and not in it.
func (h *Handle) CutLast(ctx context.Context) (Image, error) {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	return h.cutImage(ctx, true)
}

// overByItself reports whether a fence's error is one with which CutLast still works: the lease was not
// given up by this holder.
func overByItself(err error) bool {
	e := messages.AsError(err)
	return e != nil && e.Code == messages.CodeFenced && (e.Reason == messages.ReasonExpiredLocally || e.Reason == messages.ReasonLeaseLost)
}

// mayCut looks at the fence for a Cut, or for a CutLast.
func (h *Handle) mayCut(last bool) error {
	err := h.checkFence()
	if last && overByItself(err) {
		return nil
	}
	return err
}

// cut implements Handle.Cut.
func (h *Handle) cut(ctx context.Context) (Image, error) { return h.cutImage(ctx, false) }

// cutImage implements Cut and CutLast: a read transaction begins, for a Cut between two batches, which costs
// the writer next to nothing; then the pages that it sees are copied.
func (h *Handle) cutImage(ctx context.Context, last bool) (image Image, err error) {
	if err := h.awaitOpen(ctx); err != nil {
		return Image{}, err
	}
	if err := h.usable(); err != nil {
		return Image{}, err
	}
	if err := h.mayCut(last); err != nil {
		return Image{}, err
	}
	pool := h.shared.readers
	select {
	case pool.cutting <- struct{}{}:
	case <-ctx.Done():
		return Image{}, h.gaveUp(ctx)
	case <-pool.stop.Done():
		return Image{}, closedError(h.cfg.Key)
	}
	if err := pool.enter(); err != nil {
		<-pool.cutting
		return Image{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(pool.stop, cancel)()
	source, err := openReader(ctx, h.cfg)
	lost := h.shared.files.look() != nil
	if err != nil && !lost {
		pool.leave()
		<-pool.cutting
		return Image{}, pool.fail.typed(err)
	}
	end := func() {
		if source != nil {
			_ = source.Close() // nothing was written on it
		}
		pool.leave()
		<-pool.cutting
	}
	pinned, err := h.pin(ctx, source, last, lost, end)
	if err != nil {
		return Image{}, err
	}
	defer end()
	if pinned.salvaged {
		return pinned.image, h.mayCut(last)
	}
	image, err = h.copyPages(ctx, source, nil)
	if err != nil {
		if pool.stop.Err() != nil {
			err = closedError(h.cfg.Key)
		}
		return Image{}, pool.fail.typed(err)
	}
	if err := h.mayCut(last); err != nil {
		return Image{}, err
	}
	image.Version = pinned.image.Version
	return image, nil
}

// pin fixes what source sees, and says the version of that; where the files are lost it has the copy made by the actor. If it
// fails, end is called, now or later.
func (h *Handle) pin(ctx context.Context, source *sqlite3.SQLiteConn, last, lost bool, end func()) (*cutAsk, error) {
	fail := h.shared.readers.fail
	a := &cutAsk{ask: newAsk(ctx), last: last, pin: func() error {
		if source == nil { // it was not there a moment ago
			return fail.storage("open the ledger", errors.New("its file was moved"))
		}
		return fail.typed(pinRead(source))
	}}
	if last && !lost {
		// A version is counted after its commit, and a write is acknowledged after that.
		a.image.Version = h.Version()
		if err := a.pin(); err != nil {
			end()
			return nil, err
		}
		return a, nil
	}
	if !h.ref.Send(a) {
		end()
		return nil, closedError(h.cfg.Key)
	}
	err := h.await(ctx, &a.ask)
	switch {
	case err == nil:
		return a, nil
	case messages.CodeOf(err) != messages.CodeUnknownOutcome:
		end()
		return nil, err
	}
	// The actor is just using the connection.
	go func() {
		select {
		case <-a.done:
		case <-h.ref.Done():
		}
		end()
	}()
	return nil, h.gaveUp(ctx)
}

// pinRead begins a read transaction. Its first read fixes what it sees.
func pinRead(raw *sqlite3.SQLiteConn) error {
	if _, err := raw.ExecContext(context.Background(), "BEGIN", nil); err != nil {
		return err
	}
	_, err := queryInt(context.Background(), raw, "SELECT count(*) FROM sqlite_schema")
	return err
}

// WriteImage writes the bytes of an image to a new file, readable by its owner only, and syncs file
// and folder. The file must not exist. Failures are CodeStorage, and leave nothing behind.
func WriteImage(ctx context.Context, path string, image []byte) (err error) {
	if err := ctx.Err(); err != nil {
		return messages.AsError(err)
	}
	defer func() {
		if err != nil {
			err = &messages.Error{Code: messages.CodeStorage, Object: filepath.Base(path), Message: localfile.Because("cannot write the image", err), Err: err}
		}
	}()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(image)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	if err = fsync.Folder(filepath.Dir(path)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// exists reports whether there is a file of that name.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
