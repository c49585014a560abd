package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/messages"
)

// Export copies into a run's folder what Judge needs and a server has: the audit trails, and every object. It
// comes after TakeOver, when nobody writes any more. Of stores that are files it copies nothing.
func Export(ctx context.Context, root string, where engine.Stores, keys []messages.Key) error {
	if where.Leases.Kind.HasServer() {
		if err := exportTrails(ctx, root, where, keys); err != nil {
			return fmt.Errorf("copy the audit trails: %w", err)
		}
	}
	if where.Durable.Kind.HasServer() {
		if err := exportObjects(ctx, root, where); err != nil {
			return fmt.Errorf("copy the objects: %w", err)
		}
	}
	return nil
}

func exportTrails(ctx context.Context, root string, where engine.Stores, keys []messages.Key) (err error) {
	leases, err := where.OpenLeases(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leases.Close()) }()
	trails := map[string][]messages.LeaseEntry{}
	for _, key := range keys {
		if trails[key.String()], err = leases.History(ctx, key); err != nil {
			return err
		}
	}
	data, err := json.Marshal(trails)
	if err != nil {
		return err
	}
	return os.WriteFile(replica.TrailsPath(root), data, 0o600)
}

func exportObjects(ctx context.Context, root string, where engine.Stores) (err error) {
	objects, err := where.OpenDurable(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	names, err := objects.List(ctx, "")
	if err != nil {
		return err
	}
	for _, name := range names {
		data, ok, err := objects.Get(ctx, name, math.MaxInt64)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%s was listed, and is not there", name)
		}
		path := filepath.Join(replica.DurableDir(root), filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// exportedTrails reads the audit trails that Export has copied.
func (r *run) exportedTrails(_ context.Context, root string) error {
	data, err := os.ReadFile(replica.TrailsPath(root))
	if err != nil {
		return fmt.Errorf("the audit trails: %w", err)
	}
	var trails map[string][]messages.LeaseEntry
	if err := json.Unmarshal(data, &trails); err != nil {
		return fmt.Errorf("%s: %w", replica.TrailsPath(root), err)
	}
	for _, key := range r.keys {
		trail, ok := trails[key.String()]
		if !ok {
			return fmt.Errorf("%s: no audit trail of %s", replica.TrailsPath(root), key)
		}
		r.h.Trails[key] = trail
	}
	return nil
}
