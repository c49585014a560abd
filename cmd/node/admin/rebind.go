package admin

import (
	"context"
	"fmt"
	"io"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Rebind makes the durable store that of the lease store: after one of them was lost, and another one was put in its place.
type Rebind struct {
	Common `embed:""`
	Yes    bool `help:"No node runs on either store." env:"-"`
}

// rebound is what the two stores carry now.
type rebound struct {
	Deployment string `json:"deployment"`
}

// Run implements the command. CodeInvalidArgument without Yes: with a node running, two would serve the same tenants.
func (c *Rebind) Run(ctx context.Context, env *Env) error {
	if !c.Yes {
		return &messages.Error{Code: messages.CodeInvalidArgument, Message: "stop every node that uses one of the two stores, and say --yes"}
	}
	return c.both(ctx, env, func(leases storeurl.LeaseStore, durable storeurl.DurableStore) error {
		identity, err := stores.Rebind(ctx, leases, durable)
		if err != nil {
			return err
		}
		return c.print(env, rebound{identity}, func(w io.Writer) { fmt.Fprintf(w, "both stores are of the deployment %s\n", identity) })
	})
}
