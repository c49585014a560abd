package snapshotactor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// restoredFile is what Config.File holds.
type restoredFile struct {
	manifest        *messages.Manifest // nil: the file does not exist
	events, lastSeq int64
}

// restore makes Config.File the image that m promises, verified, or removes it if m is nil. Nothing
// that was there before survives it (S8).
func (o *opening) restore(ctx context.Context, m *messages.Manifest) error {
	if o.ready != nil && sameManifest(o.ready.manifest, m) {
		return nil
	}
	o.ready = nil
	for _, path := range []string{o.File, tempOf(o.File)} {
		if err := removeLedger(path); err != nil {
			return err
		}
	}
	next := &restoredFile{manifest: m}
	if m != nil {
		image, err := o.fetchImage(ctx, *m)
		if err != nil {
			return err
		}
		verifier := o.Verifier
		if o.Planted.Has(planted.NoVerify) {
			verifier = nil
		}
		next.events, next.lastSeq, err = writeLedger(ctx, o.File, image, verifier, o.Key, *m)
		if err != nil {
			return err
		}
	}
	o.ready = next
	return nil
}

func sameManifest(a, b *messages.Manifest) bool {
	if a == nil || b == nil {
		return a == b
	}
	// The nonce and the hash tell any two manifests apart that differ at all; times may have
	// different locations for the same instant.
	return a.Epoch == b.Epoch && a.Snapshot == b.Snapshot && a.SHA256 == b.SHA256 && a.Nonce == b.Nonce
}

// fetchImage returns the bytes of an image, checked against its manifest.
func (c caller) fetchImage(ctx context.Context, m messages.Manifest) ([]byte, error) {
	name := c.Key.ImageName(m.Epoch, m.Snapshot)
	if c.MaxImageBytes > 0 && m.Size > c.MaxImageBytes {
		return nil, &messages.Error{Code: messages.CodeTooLarge, Key: c.Key.String(), Object: name,
			Message: fmt.Sprintf("the ledger has %d bytes by its manifest; this node takes at most %d (max_image)", m.Size, c.MaxImageBytes)}
	}
	image, ok, err := c.get(ctx, name, m.Size)
	if err != nil {
		return nil, err
	}
	if c.Planted.Has(planted.NoVerify) && ok {
		return image, nil
	}
	hash := sha256.Sum256(image)
	switch {
	case !ok:
		return nil, corrupt(name, "its manifest promises it, and it is gone", nil)
	case int64(len(image)) != m.Size:
		return nil, corrupt(name, fmt.Sprintf("has %d bytes, its manifest says %d", len(image), m.Size), nil)
	case hex.EncodeToString(hash[:]) != m.SHA256:
		return nil, corrupt(name, "does not have the SHA-256 that its manifest carries", nil)
	}
	return image, nil
}

// tempOf returns where a file is written until it is verified. It is the same at every attempt, so that
// what a crash leaves is found.
func tempOf(path string) string { return path + ".restore" }

// writeLedger writes an image beside path, lets the verifier look at it (nil: none), and only then
// gives it its name: what is at path was verified. It is not synced, because after a power cut the
// durable copy is restored again.
func writeLedger(ctx context.Context, path string, image []byte, verifier Verifier, key messages.Key, m messages.Manifest) (events, lastSeq int64, err error) {
	temp := tempOf(path)
	if err := removeLedger(temp); err != nil {
		return 0, 0, err
	}
	// The verifier, or SQLite on its behalf, may leave files of its own beside it.
	defer func() {
		if cleanErr := removeLedger(temp); err == nil {
			err = cleanErr
		}
	}()
	if err := os.WriteFile(temp, image, 0o600); err != nil {
		return 0, 0, disk(temp, err)
	}
	events, lastSeq = m.Events, m.LastSeq
	if verifier != nil {
		if events, lastSeq, err = verify(ctx, temp, verifier, key, m); err != nil {
			return 0, 0, err
		}
	}
	if ctx.Err() != nil {
		return 0, 0, ended(ctx, key.ImageName(m.Epoch, m.Snapshot))
	}
	if err := os.Rename(temp, path); err != nil {
		return 0, 0, disk(path, err)
	}
	return events, lastSeq, nil
}

// verify checks what only SQLite can tell, against the manifest.
func verify(ctx context.Context, path string, verifier Verifier, key messages.Key, m messages.Manifest) (events, lastSeq int64, err error) {
	name := key.ImageName(m.Epoch, m.Snapshot)
	events, lastSeq, err = verifier.Verify(ctx, path, key)
	switch messages.CodeOf(err) {
	case "":
	case messages.CodeStorage, messages.CodeUnavailable, messages.CodeCanceled, messages.CodeDeadlineExceeded:
		return 0, 0, err // nothing was found out about the image
	case messages.CodeInvalidArgument, messages.CodeIncapable:
		e := *messages.AsError(err) // a newer version of Leasehold, or of the application, wrote it: it is not corrupt, and must not be taken for it
		e.Key, e.Object = key.String(), name
		return 0, 0, &e
	default:
		if ctx.Err() != nil {
			return 0, 0, ended(ctx, name)
		}
		return 0, 0, corrupt(name, "the restored ledger failed its verification", err)
	}
	if events != m.Events || lastSeq != m.LastSeq {
		return 0, 0, corrupt(key.ManifestName(m.Epoch, m.Snapshot),
			fmt.Sprintf("says %d events up to seq %d, its image holds %d up to %d", m.Events, m.LastSeq, events, lastSeq), nil)
	}
	return events, lastSeq, nil
}

// removeLedger removes a SQLite file and what SQLite keeps beside it. A stale write-ahead log would be
// replayed into the next file of that name.
func removeLedger(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return disk(path+suffix, err)
		}
	}
	return nil
}
