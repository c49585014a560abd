package natsserver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/leasehold/leasehold/internal/fsync"
	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/internal/smallfile"
	"github.com/leasehold/leasehold/messages"
)

// maxName bounds a server's name, in bytes.
const maxName = 64

// SafeName returns a name for a server that is made of letters, digits, - and _ only. A name that is not
// already like that is made so, and gets the beginning of its hash: different names stay different.
func SafeName(name string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, name)
	if safe == name && len(name) <= maxName && name != "" {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	return safe[:min(len(safe), maxName-9)] + "-" + hex.EncodeToString(hash[:4])
}

// nameFile is in the server's folder, beside JetStream's own.
const nameFile = "server-name"

// KeptName returns the name that a server had when it first used dir, and records name there if it is the
// first. To the others a member is its name: under another one it would be a new member, and the old one
// would be missed for ever. The error is CodeStorage if the folder cannot be used, and CodeCorrupt if
// what it holds is no name.
func KeptName(dir, name string) (string, error) {
	path := filepath.Join(dir, nameFile)
	storage := func(err error) (string, error) {
		return "", &messages.Error{Code: messages.CodeStorage, Object: path, Message: localfile.Because("the name of the NATS server cannot be kept", err), Err: err}
	}
	kept, err := smallfile.Read(path)
	switch {
	case err == nil:
		if had := strings.TrimSpace(string(kept)); had != "" && SafeName(had) == had {
			if err := fsync.Folder(dir); err != nil { // who wrote it may have died before that
				return storage(err)
			}
			return had, nil
		}
		return "", &messages.Error{Code: messages.CodeCorrupt, Object: path, Message: "this is not the name of a NATS server"}
	case !errors.Is(err, fs.ErrNotExist):
		return storage(err)
	}
	if _, err := fsync.MkdirAll(dir, 0o700); err != nil {
		return storage(err)
	}
	// Whole or not at all, like everything that must survive a power cut.
	if err := write(path+".tmp", name+"\n"); err != nil {
		return storage(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return storage(err)
	}
	if err := fsync.Folder(dir); err != nil {
		return storage(err)
	}
	return name, nil
}

func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}
