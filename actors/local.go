package actors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// The local files of an ownership live in <tenant root>/e<epoch>/. They are never served again after
// it ([S8]): a later open starts from the durable copy, in a folder of its own.

const ledgerFile = "ledger.db"

// verifier lets the snapshot child check a restored file.
type verifier struct{ node *Node }

func (verifier) Verify(ctx context.Context, path string, key messages.Key) (events, lastSeq int64, err error) {
	sum, err := ledgeractor.Verify(ctx, path, key)
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

// prepareLocal deletes the local files of every earlier ownership and creates the folder of this one.
func (n *Node) prepareLocal(key messages.Key, epoch uint64) (file string, err error) {
	if err := n.dropLocal(key); err != nil {
		return "", err
	}
	file = n.localFile(key, epoch)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", storageError(key, err)
	}
	return file, nil
}

// dropLocal deletes all local files of a tenant.
func (n *Node) dropLocal(key messages.Key) error {
	if err := os.RemoveAll(n.tenantRoot(key)); err != nil {
		return storageError(key, err)
	}
	return nil
}

func storageError(key messages.Key, err error) error {
	return &messages.Error{Code: messages.CodeStorage, Key: key.String(), Message: "the node's state root cannot be used", Err: err}
}

// localFolders calls visit with each folder of local files below the state root.
func (n *Node) localFolders(visit func(key messages.Key, epoch uint64, path string, age time.Duration)) {
	orgs := filepath.Join(n.cfg.StateRoot, "orgs")
	paths, _ := filepath.Glob(filepath.Join(orgs, "*", "tenants", "*", "e*")) // the pattern is well formed
	for _, path := range paths {
		rel, err := filepath.Rel(orgs, path)
		if err != nil {
			continue
		}
		parts := strings.Split(rel, string(filepath.Separator))
		key, err := messages.NewKey(messages.OrgID(parts[0]), messages.TenantID(parts[2]))
		if err != nil {
			continue
		}
		epoch, err := strconv.ParseUint(strings.TrimPrefix(parts[3], "e"), 10, 64)
		if err != nil {
			continue
		}
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err != nil {
			continue
		}
		visit(key, epoch, path, n.cfg.Now().Sub(info.ModTime()))
	}
}
