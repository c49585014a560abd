package snapshotactor

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/leasehold/leasehold/messages"
)

// Fetch restores one snapshot into a new file, verified, without a lease and without changing
// anything in the store. at names any snapshot that the store still holds above floor; nil: the state
// that the next owner would begin with. If that is the empty ledger, Fetch returns CodeNotFound.
//
// It refuses to overwrite a file (CodeInvalidArgument), and returns CodeNotFound for a snapshot that is
// not there, else the errors of Open.
func Fetch(ctx context.Context, store Store, verifier Verifier, key messages.Key, at *messages.Position, floor uint64, file string) (messages.Manifest, error) {
	cfg, err := Config{Store: store, Key: key, Verifier: verifier, File: file}.withDefaults()
	if err != nil {
		return messages.Manifest{}, err
	}
	if verifier == nil || file == "" {
		return messages.Manifest{}, invalid(key, "to fetch, a verifier and a file are needed")
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return messages.Manifest{}, &messages.Error{Code: messages.CodeInvalidArgument, Object: file, Message: "the file exists, or cannot be looked at; nothing is overwritten", Err: err}
	}
	c := caller{cfg}
	names, err := c.list(ctx)
	if err != nil {
		return messages.Manifest{}, err
	}
	l := readListing(key, names)
	var m *messages.Manifest
	if at == nil {
		p, err := c.next(ctx, l, floor)
		if err != nil {
			return messages.Manifest{}, err
		}
		m = p.manifest
	} else if m, err = c.named(ctx, l, *at, floor); err != nil {
		return messages.Manifest{}, err
	}
	if m == nil {
		return messages.Manifest{}, &messages.Error{Code: messages.CodeNotFound, Key: key.String(), Message: "there is no such snapshot"}
	}
	image, err := c.fetchImage(ctx, *m)
	if err != nil {
		return messages.Manifest{}, err
	}
	_, _, err = writeLedger(ctx, file, image, verifier, key, *m)
	return *m, err
}

// named returns the manifest of a snapshot, or nil if it is not there, or forgotten.
func (c caller) named(ctx context.Context, l listing, at messages.Position, floor uint64) (*messages.Manifest, error) {
	if at.Increment != 0 {
		return nil, unsupported(c.Key.IncrementName(at.Epoch, at.Increment), "the position is an increment")
	}
	if at.Epoch <= floor || !l.hasManifest(at.Epoch, at.Snapshot) {
		return nil, nil
	}
	m, sealed, err := smallReader(c.small).manifest(ctx, l, at.Epoch, at.Snapshot)
	if err != nil || sealed {
		return nil, err
	}
	return &m, nil
}
