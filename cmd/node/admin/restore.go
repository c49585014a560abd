package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
)

// Restore writes a verified copy of a ledger to a new file.
type Restore struct {
	Common `embed:""`
	Key    string `arg:"" help:"ORG/TENANT."`
	To     string `required:"" help:"File to create; it must not exist." placeholder:"FILE" type:"path" env:"-"`
	At     string `help:"Which snapshot, as in e3/snap-7; default: what the next owner would begin with." placeholder:"SNAPSHOT" env:"-"`
}

// restored is what was written.
type restored struct {
	Key      messages.Key      `json:"key"`
	File     string            `json:"file"`
	Manifest messages.Manifest `json:"manifest"`
}

// Run implements the command. The file survives a power cut once it returns. CodeNotFound: there is
// no such snapshot. CodeDeploymentMismatch: the two stores do not belong together.
func (c *Restore) Run(ctx context.Context, env *Env) error {
	key, err := messages.ParseKey(c.Key)
	if err != nil {
		return err
	}
	var at *messages.Position
	if c.At != "" {
		p, err := parsePosition(c.At)
		if err != nil {
			return err
		}
		at = &p
	}
	return c.bound(ctx, env, func(leases storeurl.LeaseStore, durable storeurl.DurableStore) error {
		lease, err := known(ctx, leases, key)
		if err != nil {
			return err
		}
		bar := c.bar(env, "restoring", bytesUnit)
		manifest, err := snapshotactor.Fetch(ctx, durable, verifier{}, key, at, lease.Floor, c.To)
		bar.finish()
		if err != nil {
			return err
		}
		if err := errors.Join(sync(c.To), sync(filepath.Dir(c.To))); err != nil {
			return &messages.Error{Code: messages.CodeStorage, Object: c.To, Message: localfile.Because("sync the restored file", err), Err: err}
		}
		return c.print(env, restored{key, c.To, manifest}, func(w io.Writer) {
			at := messages.Position{Epoch: manifest.Epoch, Snapshot: manifest.Snapshot}
			fmt.Fprintf(w, "%s of %s: %d events up to seq %d, %d bytes, written to %s\n", at, key, manifest.Events, manifest.LastSeq, manifest.Size, c.To)
		})
	})
}

func sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
