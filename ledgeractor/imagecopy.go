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
// disk is full must not be kept from going elsewhere. check (nil: none) is called with the copy.
func (h *Handle) copyPages(ctx context.Context, source *sqlite3.SQLiteConn, check func(*sqlite3.SQLiteConn) error) (image Image, err error) {
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
	image.Bytes, err = h.copyByFile(ctx, source, check)
	if messages.CodeOf(err) == messages.CodeStorage {
		var second error
		if image.Bytes, second = h.copyInMemory(ctx, source, check); second != nil {
			return Image{}, errors.Join(err, second)
		}
		h.cfg.Log.Warn("a copy of the ledger could not be made on the local disk: it was made in memory", "key", h.cfg.Key.String(), "epoch", h.cfg.Epoch, "error", err)
	} else if err != nil {
		return Image{}, err
	}
	if int64(len(image.Bytes)) != pages*pageSize {
		return Image{}, h.shared.readers.fail.storage("copy the ledger", errors.New("the copy has another size"))
	}
	return image, nil
}

func (h *Handle) copyByFile(ctx context.Context, source *sqlite3.SQLiteConn, check func(*sqlite3.SQLiteConn) error) (data []byte, err error) {
	err = copyByFile(ctx, h.shared.readers.fail, h.cfg.Path, source, check, func(file *os.File) error {
		data, err = os.ReadFile(file.Name())
		return err
	})
	return data, err
}

// copyByFile copies what source sees into a temporary file beside the ledger, and has it read.
func copyByFile(ctx context.Context, fail failures, ledger string, source *sqlite3.SQLiteConn, check func(*sqlite3.SQLiteConn) error, read func(*os.File) error) error {
	path := cutPath(ledger)
	if err := createEmpty(path); err != nil {
		return fail.storage("copy the ledger", err)
	}
	defer os.Remove(path)
	target, err := openSQLite(path, map[string]string{"mode": "rw", "_journal_mode": "OFF", "_synchronous": "OFF"})
	if err != nil {
		return fail.typed(err)
	}
	if err := errors.Join(fail.typed(backup(ctx, target, source, check)), fail.typed(target.Close())); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return fail.storage("read the copy of the ledger", err)
	}
	defer file.Close()
	if err := read(file); err != nil {
		return fail.storage("read the copy of the ledger", err)
	}
	return nil
}

// copyInMemory takes three times the size of the ledger for a moment, two thirds of that from SQLite's
// memory. A copy in memory has no page that cannot be read.
func (h *Handle) copyInMemory(ctx context.Context, source *sqlite3.SQLiteConn, check func(*sqlite3.SQLiteConn) error) ([]byte, error) {
	fail := h.shared.readers.fail
	conn, err := (&sqlite3.SQLiteDriver{}).Open(":memory:")
	if err != nil {
		return nil, fail.typed(err)
	}
	target := conn.(*sqlite3.SQLiteConn)
	defer func() { _ = target.Close() }() // what it holds has been copied
	if err := backup(ctx, target, source, check); err != nil {
		return nil, fail.typed(err)
	}
	data, err := target.Serialize("main")
	if err != nil {
		return nil, fail.storage("copy the ledger in memory", err)
	}
	return data, nil
}

func backup(ctx context.Context, target, source *sqlite3.SQLiteConn, check func(*sqlite3.SQLiteConn) error) error {
	b, err := target.Backup("main", source, "main")
	if err != nil {
		return err
	}
	for done := false; !done && err == nil; {
		if err = ctx.Err(); err == nil {
			done, err = b.Step(pagesPerStep)
		}
	}
	if err = errors.Join(err, b.Finish()); err == nil && check != nil {
		err = check(target)
	}
	return err
}

// createEmpty creates an empty file that only its owner can read, in place of one that a crash left.
func createEmpty(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}
