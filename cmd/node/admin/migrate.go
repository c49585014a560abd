package admin

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
)

// Migrate creates the schema of a lease store, as the account of the URL, which then owns it: what an
// administrator does once, so that the nodes' account needs fewer rights.
type Migrate struct {
	Common `embed:""`
}

// migrated is what was done.
type migrated struct {
	Leases string `json:"leases"` // without secrets
}

// Run implements the command. CodeInvalidArgument: the lease store has no schema. A schema that is there
// already is checked and left as it is.
func (c *Migrate) Run(ctx context.Context, env *Env) (err error) {
	where := c.WithDefaults().Leases
	err = env.Schemes.CheckLeases(where)
	if err == nil {
		err = env.Schemes.CheckMigrate(where)
	}
	if err != nil {
		return named("--leases", err)
	}
	store, err := env.Schemes.OpenLeases(ctx, where, storeurl.Options{Migrate: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	done := migrated{Leases: storeurl.Redact(where)}
	return c.print(env, done, func(w io.Writer) { fmt.Fprintf(w, "the lease store %s has its schema\n", done.Leases) })
}
