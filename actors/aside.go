package actors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/leasehold/leasehold/internal/smallfile"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// Files that are set aside. The local files of an ended ownership may be the only copy of writes that were
// acknowledged: their last snapshot met a successor's seal, or the process was killed. They are never served, and never
// deleted because of their age (K5): they wait in <tenant root>/aside/e<epoch>/ for somebody who can make something of
// them, or for the tenant to be forgotten.
//
// Most files that a crash leaves hold nothing of that kind. So that these can be told from the others, the folder of an
// open tenant has a file that names the newest image which counts: by its hash, which the ledger is compared with.

const (
	asideFolder = "aside"
	// savedFile holds the hash of the newest image that counts, or nothing. A folder without one was never served from.
	savedFile = "saved"
	// unsavedFile says that the ledger was compared, and holds more than that image.
	unsavedFile = "unsaved"
)

// noteSaved writes down that everything in an image is saved. It may be late, or fail: what is said of an older image
// than the newest makes files look unsaved, never the other way round.
func (n *Node) noteSaved(key messages.Key, epoch uint64, sha256 string) error {
	path := filepath.Join(filepath.Dir(n.localFile(key, epoch)), savedFile)
	if err := os.WriteFile(path, []byte(sha256), 0o600); err != nil {
		return storageError(key, err)
	}
	return nil
}

// moveAside moves a folder of local files out of the way, and returns where it is now; "" if it was never served from,
// and is deleted.
func (n *Node) moveAside(f localFolder) (string, error) {
	for _, name := range []string{savedFile, ledgerFile} {
		if _, err := os.Lstat(filepath.Join(f.path, name)); errors.Is(err, fs.ErrNotExist) {
			return "", os.RemoveAll(f.path)
		}
	}
	to := filepath.Join(n.tenantRoot(f.key), asideFolder, epochFolder(f.epoch))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	// An epoch comes twice where the lease store has lost its records.
	for i, name := 2, to; ; i++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			to = name
			break
		}
		name = fmt.Sprintf("%s.%d", to, i)
	}
	return to, os.Rename(f.path, to)
}

// setAside keeps the files of an ownership that ended with writes which no snapshot holds, and says where.
func (n *Node) setAside(f localFolder) {
	to, err := n.moveAside(f)
	if err == nil {
		if to == "" {
			return // it is somewhere else by now, or was deleted
		}
		f.path = to
		err = os.WriteFile(filepath.Join(to, unsavedFile), nil, 0o600)
	}
	if err != nil {
		n.log(f.key).Error("local files that hold writes which no snapshot has could not be set aside; they stay where they are",
			"epoch", f.epoch, "path", f.path, "error", err)
	}
	n.reportAside(f)
}

func (n *Node) reportAside(f localFolder) {
	n.log(f.key).Warn("a ledger with writes that no snapshot has is set aside: it is not served, and stays until the tenant is forgotten or somebody removes it",
		"epoch", f.epoch, "path", f.path)
	n.emit(messages.Lifecycle{Kind: messages.LifecycleSetAside, Key: f.key, Owner: n.owner, Epoch: f.epoch})
	n.metrics.setAside.Inc()
}

// examineAside looks at what was set aside of a tenant before anybody knew whether it is saved.
func (n *Node) examineAside(ctx context.Context, key messages.Key) {
	for _, f := range n.foldersOf(key) {
		if f.aside {
			n.examine(ctx, f)
		}
	}
}

// examine deletes local files of an ended ownership if everything in them is in a snapshot that counts, and else sets
// them aside. It reports whether they are still there, and hold more. Folders are examined one at a time: each costs
// a copy of its ledger.
func (n *Node) examine(ctx context.Context, f localFolder) (unsaved bool) {
	select {
	case n.examining <- struct{}{}:
		defer func() { <-n.examining }()
	case <-ctx.Done():
		return false
	}
	if _, err := os.Lstat(filepath.Join(f.path, unsavedFile)); err == nil {
		return true
	}
	want, err := smallfile.Read(filepath.Join(f.path, savedFile))
	if errors.Is(err, fs.ErrNotExist) {
		n.removeFolder(f) // it was never served from, or is gone already
		return false
	}
	digest := ""
	if err == nil {
		digest, err = ledgeractor.Digest(ctx, filepath.Join(f.path, ledgerFile), f.key)
	}
	switch {
	case ctx.Err() != nil:
		return false // looked at again later
	case err == nil && digest == string(want):
		n.removeFolder(f)
		return false
	case errors.Is(err, messages.ErrStorage):
		n.log(f.key).Warn("local files of an ended ownership could not be examined; tried again later", "epoch", f.epoch, "path", f.path, "error", err)
		return true
	case !f.aside:
		n.setAside(f)
		return true
	}
	if err := os.WriteFile(filepath.Join(f.path, unsavedFile), nil, 0o600); err != nil {
		n.log(f.key).Warn("files that are set aside could not be marked; they are examined again", "epoch", f.epoch, "path", f.path, "error", err)
	}
	n.reportAside(f)
	return true
}

func (n *Node) removeFolder(f localFolder) {
	// By its epoch's folder, never by the tenant's: an open may be creating a later one.
	if err := os.RemoveAll(f.path); err != nil {
		n.log(f.key).Warn("local files could not be deleted; tried again later", "epoch", f.epoch, "path", f.path, "error", err)
		return
	}
	if f.aside {
		_ = os.Remove(filepath.Dir(f.path)) // if nothing else is in it
	}
}
