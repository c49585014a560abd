package ledgeractor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// SQLite goes on with files that somebody has deleted, moved away or replaced: everything works, and nothing of it would be found
// again by name, by a snapshot least of all. So the actor looks before each commit and each cut whether the names still stand for
// the files that it has open. Where they do not, nothing more is written, and what the open connection still
// reads is saved (salvage).

// files is what is known of the files of a ledger. It is shared with those who open them by name.
type files struct {
	path string

	mu   sync.Mutex
	seen [2]os.FileInfo // of the database, as large as it has been; of its WAL, from when there is one
}

// look returns why the ledger's names do not stand for its files any more; nil: they do.
func (f *files) look() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, name := range [...]string{f.path, f.path + "-wal"} {
		info, err := os.Stat(name)
		seen := f.seen[i]
		switch {
		case seen == nil && err == nil:
			f.seen[i] = info
		case seen == nil:
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			return errors.New(filepath.Base(name) + " was deleted or moved")
		case err != nil: // that says nothing about the file, and writing will fail by itself
		case !os.SameFile(seen, info):
			return errors.New(filepath.Base(name) + " was replaced")
		case i == 0 && info.Size() < seen.Size(): // SQLite never makes it smaller: VACUUM is not allowed
			return errors.New(filepath.Base(name) + " was truncated")
		case i == 0:
			f.seen[i] = info
		}
	}
	return nil
}

// FilesLost is reported to the parent, once, when the files of the ledger were found deleted, moved, replaced or truncated. From then on
// writes are refused with CodeStorage; Cut and CutLast take what the open connection still has, after a check of its
// integrity, and report Corrupt if that is not a whole ledger. The ledger should be handed off: nothing of it will be found by name.
type FilesLost struct {
	Err error
}

// lookAtFiles tells the actor that a file could not be opened by its name.
type lookAtFiles struct{}

// filesLost looks at the files, and returns and reports that they are gone.
func (a *Actor) filesLost() error {
	if a.lost != nil {
		return a.lost
	}
	why := a.shared.files.look()
	if why == nil {
		return nil
	}
	a.lost = &messages.Error{Code: messages.CodeStorage, Key: a.cfg.Key.String(), Object: a.guard.fail.file, RetryAfter: overloadedRetry,
		Message: "the ledger's file is not its own any more; nothing more is written to it, and what it held is being saved", Err: why}
	a.abort(a.lost)
	a.report(FilesLost{Err: a.lost})
	return a.lost
}

// salvage copies a ledger whose files are lost, by the connection that still has them open. What it returns was verified:
// of a file that was truncated SQLite reads zeros.
func (a *Actor) salvage(ctx context.Context) (Image, error) {
	g := a.guard
	g.mu.Lock()
	g.own = true
	image, err := a.Handle(a.self.Ref()).copyPages(ctx, g.raw, func(copied *sqlite3.SQLiteConn) error {
		_, defect, err := verifyConn(ctx, copied, a.cfg.Key)
		if err == nil && defect != "" {
			err = g.fail.broken(defect)
		}
		return err
	})
	g.own = false
	g.mu.Unlock()
	image.Version = a.shared.version.Load()
	if err = g.fail.typed(err); messages.CodeOf(err) == messages.CodeCorrupt {
		a.shared.breakWith(err)
		a.onCorrupted(err)
	}
	return image, err
}
