package snapshotactor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/leasehold/leasehold/messages"
)

// Finding is one object that failed its verification.
type Finding struct {
	// Object is its name.
	Object string `json:"object"`
	// Live says that it belongs to the lineage that the next owner restores.
	Live bool `json:"live"`
	// Err is CodeCorrupt, or CodeInvalidArgument for an object that needs a newer version.
	Err *messages.Error `json:"error"`
}

// VerifyAll fetches every snapshot that has a manifest, of every epoch, and verifies it as a restore
// would. It returns what failed; an image that was never finished is no finding. tempDir holds one
// image at a time. progress (nil: none) is told after each image how many of the total bytes of images
// are done. The error is of the store, the local disk or ctx; the findings up to then are returned
// with it. Nothing in the store is changed.
func VerifyAll(ctx context.Context, store Store, key messages.Key, verifier Verifier, tempDir string, progress func(done, total int64)) ([]Finding, error) {
	cfg, err := Config{Store: store, Key: key, Verifier: verifier}.withDefaults()
	if err != nil {
		return nil, err
	}
	if verifier == nil {
		return nil, invalid(key, "to verify, a verifier is needed")
	}
	c := caller{cfg}
	names, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	l := readListing(key, names)
	var findings []Finding
	note := func(err error, object string, live bool) error {
		if err == nil || storeFailed(err) {
			return err
		}
		typed := messages.AsError(err)
		if typed.Object != "" {
			object = typed.Object
		}
		findings = append(findings, Finding{Object: object, Live: live, Err: typed})
		return nil
	}
	live, err := c.live(ctx, l, 0, &Report{})
	if err := note(err, key.Prefix(), true); err != nil {
		return nil, err
	}
	var snapshots []messages.Manifest
	var done, total int64
	for _, e := range l.ascending() {
		if l.hasBase(e) {
			_, _, err := smallReader(c.small).base(ctx, l, e)
			if err := note(err, key.BaseName(e), live[e] > 0); err != nil {
				return findings, err
			}
		}
		for _, n := range l.at(e).manifests {
			m, sealed, err := smallReader(c.small).manifest(ctx, l, e, n)
			if failed := note(err, key.ManifestName(e, n), n <= live[e]); failed != nil {
				return findings, failed
			}
			if err == nil && !sealed {
				snapshots = append(snapshots, m)
				total += m.Size
			}
		}
	}
	file := filepath.Join(tempDir, fmt.Sprintf("%s.verify-%d", key.Tenant, os.Getpid()))
	for _, m := range snapshots {
		image, err := c.fetchImage(ctx, m)
		if err == nil {
			_, _, err = writeLedger(ctx, file, image, verifier, key, m)
		}
		if cleanErr := removeLedger(file); err == nil {
			err = cleanErr
		}
		if err := note(err, key.ImageName(m.Epoch, m.Snapshot), m.Snapshot <= live[m.Epoch]); err != nil {
			return findings, err
		}
		done += m.Size
		if progress != nil {
			progress(done, total)
		}
	}
	return dropRepeated(findings), nil
}

// dropRepeated keeps the first finding of each object: following the lineage and looking at every
// object can meet the same one.
func dropRepeated(findings []Finding) []Finding {
	seen := map[string]bool{}
	var out []Finding
	for _, f := range findings {
		if !seen[f.Object] {
			seen[f.Object] = true
			out = append(out, f)
		}
	}
	return out
}
