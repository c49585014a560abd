package daemon

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
)

// openLeases is the stores.Opener of the configured lease store.
func (d *daemon) openLeases(ctx context.Context, create bool) (storeurl.LeaseStore, error) {
	c := d.Config
	store, err := patiently(ctx, d, "leases", func(ctx context.Context) (storeurl.LeaseStore, error) {
		if c.Migrate && !create { // it would create
			there, err := d.Schemes.OpenLeases(ctx, c.Leases, storeurl.Options{MustExist: true, Log: d.Log})
			if err != nil {
				return nil, err
			}
			if err := there.Close(); err != nil {
				return nil, err
			}
		}
		return d.Schemes.OpenLeases(ctx, c.Leases, storeurl.Options{Migrate: c.Migrate, MustExist: !create, Log: d.Log})
	})
	if err != nil {
		return nil, fmt.Errorf("lease store %s: %w", storeurl.Redact(c.Leases), err)
	}
	d.closers = append(d.closers, store)
	return store, nil
}

// openDurable is the stores.Opener of the configured durable store.
func (d *daemon) openDurable(ctx context.Context, create bool) (storeurl.DurableStore, error) {
	c := d.Config
	store, err := patiently(ctx, d, "durable", func(ctx context.Context) (storeurl.DurableStore, error) {
		return d.Schemes.OpenDurable(ctx, c.Durable, storeurl.Options{MustExist: !create, Log: d.Log})
	})
	if err != nil {
		return nil, fmt.Errorf("durable store %s: %w", storeurl.Redact(c.Durable), err)
	}
	d.closers = append(d.closers, store)
	return store, nil
}
