package admin

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// LeaseReseed makes a lease store that of the copies: in place of one that was lost, or is left for another engine.
type LeaseReseed struct {
	Common `embed:""`
	From   string `help:"The lease store that is left, if it is still there: its records go along." placeholder:"URL" env:"-"`
	Live   bool   `help:"Also while leases are live: only if you know that no node runs." env:"-"`
}

// Run implements the command. The lease store may be a new one: a file that does not exist is created. CodeHeld: a lease is live, a
// node may run. For the other errors see stores.Reseed.
func (c *LeaseReseed) Run(ctx context.Context, env *Env) (err error) {
	durable, err := c.durable(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, durable.Close()) }()
	where := c.WithDefaults().Leases
	if err := named("--leases", env.Schemes.CheckLeases(where)); err != nil {
		return err
	}
	o := stores.ReseedOptions{Live: c.Live}
	if c.From != "" {
		former := c.Common
		former.Leases = c.From
		from, openErr := former.leases(ctx, env)
		if openErr != nil {
			return named("--from", openErr)
		}
		defer func() { err = errors.Join(err, from.Close()) }()
		o.From = from
	}
	leases, err := env.Schemes.OpenLeases(ctx, where, storeurl.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leases.Close()) }()
	raised, err := stores.Reseed(ctx, leases, durable, o)
	if err != nil {
		return err
	}
	if raised == nil {
		raised = []messages.Lease{}
	}
	return c.print(env, raised, func(w io.Writer) {
		leaseTable(w, raised...)
		fmt.Fprintf(w, "%d records raised\n", len(raised))
	})
}
