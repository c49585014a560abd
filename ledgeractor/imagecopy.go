package ledgeractor

import (
	"context"
	"errors"
	"os"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// cutPath is the temporary file of a Cut.
func cutPath(path string) string { return path + ".cut" }

// pagesPerStep is how much is copied between two looks at the context.
const pagesPerStep = 256

// copyPages copies what source sees into memory, by SQLite's backup: unlike sqlite3_serialize of the ledger, which
// leaves a page that cannot be read empty, it reports failures. The copy goes through a file, which costs no memory
// of SQLite's, and where the disk has no room for one through a database in memory: a ledger whose
// disk is full must not be kept from going elsewhere.
func (h *Handle) copyPages(ctx context.Context, source *sqlite3.SQLiteConn) (image Image, err error) {
	pages, err := queryInt(ctx, source, "PRAGMA page_count")
	if err != nil {
		return Image{}, err
	}
	pageSize, err := queryInt(ctx, source, "PRAGMA page_size")
	if err != nil {
		return Image{}, err
	}
	if size := pages * pageSize; size > h.cfg.Limits.MaxImageBytes {
		return Image{}, tooLarge("the ledger is over the limit for images")
	}
	if image.Events, image.LastSeq, err = countEvents(ctx, source); err != nil {
		return Image{}, err
	}
	image.Bytes, err = h.copyByFile(ctx, source)
	if messages.CodeOf(err) == messages.CodeStorage {
		var second error
		if image.Bytes, second = h.copyInMemory(ctx, source); second != nil {
			return Image{}, errors.Join(err, second)
		}
		h.cfg.Log.Warn("the local disk has no room for a copy of the ledger: it was made in memory", "key", h.cfg.Key.String(), "epoch", h.cfg.Epoch)
	} else if err != nil {
		return Image{}, err
	}
	if int64(len(image.Bytes)) != pages*pageSize {
		return Image{}, h.shared.readers.fail.storage("copy the ledger", errors.New("the copy has another size"))
	}
	return image, nil
}

func (h *Handle) copyByFile(ctx context.Context, source *sqlite3.SQLiteConn) ([]byte, error) {
	fail, path := h.shared.readers.fail, cutPath(h.cfg.Path)
	if err := createEmpty(path); err != nil {
		return nil, fail.storage("copy the ledger", err)
	}
	defer os.Remove(path)
	target, err := openSQLite(path, map[string]string{"mode": "rw", "_journal_mode": "OFF", "_synchronous": "OFF"})
	if err != nil {
		return nil, fail.typed(err)
	}
	if err := errors.Join(fail.typed(backup(ctx, target, source)), fail.typed(target.Close())); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fail.storage("read the copy of the ledger", err)
	}
	return data, nil
}

// copyInMemory takes three times the size of the ledger for a moment, two thirds of that from SQLite's
// memory (LimitMemory). A copy in memory has no page that cannot be read.
func (h *Handle) copyInMemory(ctx context.Context, source *sqlite3.SQLiteConn) ([]byte, error) {
	fail := h.shared.readers.fail
	conn, err := (&sqlite3.SQLiteDriver{}).Open(":memory:")
	if err != nil {
		return nil, fail.typed(err)
	}
	target := conn.(*sqlite3.SQLiteConn)
	defer func() { _ = target.Close() }() // what it holds has been copied
	if err := backup(ctx, target, source); err != nil {
		return nil, fail.typed(err)
	}
	data, err := target.Serialize("main")
	if err != nil {
		return nil, fail.storage("copy the ledger in memory", err)
	}
	return data, nil
}

func backup(ctx context.Context, target, source *sqlite3.SQLiteConn) error {
	b, err := target.Backup("main", source, "main")
	if err != nil {
		return err
	}
	for done := false; !done && err == nil; {
		if err = ctx.Err(); err == nil {
			done, err = b.Step(pagesPerStep)
		}
	}
	return errors.Join(err, b.Finish())
}

// createEmpty creates an empty file that only its owner can read, in place of one that a crash left.
func createEmpty(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}
