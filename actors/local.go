package actors

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// The local files of an ownership live in <tenant root>/e<epoch>/. They are never served again after
// it ([S8]): a later open starts from the durable copy, in a folder of its own. What may hold writes that no
// snapshot has is set aside then: see aside.go.

const ledgerFile = "ledger.db"

// verifier lets the snapshot child check a restored file.
type verifier struct {
	node     *Node
	restored *atomic.Int64 // tenant.restoredWith
}

func (v verifier) Verify(ctx context.Context, path string, key messages.Key) (events, lastSeq int64, err error) {
	sum, err := ledgeractor.Verify(ctx, path, key)
	if err == nil { // before anything is pinned: an application that cannot open the ledger makes no object
		err = ledgeractor.CheckApplied(key, sum.Applied, v.node.cfg.Migrations)
	}
	v.restored.Store(int64(len(sum.Applied)) + 1)
	return sum.Events, sum.LastSeq, err
}

func (n *Node) tenantRoot(key messages.Key) string {
	root, err := key.Root(n.cfg.StateRoot)
	if err != nil {
		panic(err) // the key was validated when its actor was started
	}
	return root
}

func epochFolder(epoch uint64) string { return fmt.Sprintf("e%08d", epoch) }

func (n *Node) localFile(key messages.Key, epoch uint64) string {
	return filepath.Join(n.tenantRoot(key), epochFolder(epoch), ledgerFile)
}

// prepareLocal sets the local files of earlier ownerships aside, and creates the folder of this one. aside says that
// there were such files.
func (n *Node) prepareLocal(key messages.Key, epoch uint64) (aside bool, err error) {
	for _, f := range n.foldersOf(key) {
		// A later one is that of an open which began after this one had ended, although nobody has told it yet.
		if f.aside || f.epoch > epoch {
			continue
		}
		moved, err := n.moveAside(f)
		if err != nil {
			return false, storageError(key, err)
		}
		aside = aside || moved != ""
	}
	if err := os.MkdirAll(filepath.Dir(n.localFile(key, epoch)), 0o700); err != nil {
		return false, storageError(key, err)
	}
	return aside, nil
}

// dropLocal deletes all local files of a tenant, those that are set aside too.
func (n *Node) dropLocal(key messages.Key) error {
	if err := os.RemoveAll(n.tenantRoot(key)); err != nil {
		return storageError(key, err)
	}
	return nil
}

// dropEpoch deletes the local files of one ownership.
func (n *Node) dropEpoch(key messages.Key, epoch uint64) error {
	if err := os.RemoveAll(filepath.Dir(n.localFile(key, epoch))); err != nil {
		return storageError(key, err)
	}
	_ = os.Remove(n.tenantRoot(key)) // if nothing else is in it
	return nil
}

func storageError(key messages.Key, err error) error {
	return &messages.Error{Code: messages.CodeStorage, Key: key.String(), Message: localfile.Because("the node's state root cannot be used", err), Err: err}
}

// localFolder is a folder of local files.
type localFolder struct {
	key   messages.Key
	epoch uint64
	path  string
	aside bool
	age   time.Duration // since files were created in it, or deleted
}

// foldersOf returns the folders of local files of one tenant.
func (n *Node) foldersOf(key messages.Key) []localFolder {
	return n.findFolders(string(key.Org), string(key.Tenant))
}

// localFolders returns the folders of local files of all tenants.
func (n *Node) localFolders() []localFolder { return n.findFolders("*", "*") }

func (n *Node) findFolders(org, tenant string) (found []localFolder) {
	orgs := filepath.Join(n.cfg.StateRoot, "orgs")
	inUse, _ := filepath.Glob(filepath.Join(orgs, org, "tenants", tenant, "e*")) // the patterns are well formed
	aside, _ := filepath.Glob(filepath.Join(orgs, org, "tenants", tenant, asideFolder, "e*"))
	for _, path := range append(inUse, aside...) {
		rel, err := filepath.Rel(orgs, path)
		if err != nil {
			continue
		}
		parts := strings.Split(rel, string(filepath.Separator))
		key, err := messages.NewKey(messages.OrgID(parts[0]), messages.TenantID(parts[2]))
		if err != nil {
			continue
		}
		name, _, again := strings.Cut(parts[len(parts)-1], ".")
		f := localFolder{key: key, path: path, aside: len(parts) == 5}
		if f.epoch, err = strconv.ParseUint(strings.TrimPrefix(name, "e"), 10, 64); err != nil || again && !f.aside {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		f.age = n.cfg.Now().Sub(info.ModTime())
		found = append(found, f)
	}
	return found
}
