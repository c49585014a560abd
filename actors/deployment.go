package actors

import (
	"context"
	"errors"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Messages to the supervisor: the stores are looked at as often as leases are renewed.
type (
	checkStores   struct{}
	storesChecked struct{}
)

// bind makes the two stores one deployment, or refuses to start on two that are not.
func (n *Node) bind(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DurableTimeout)
	defer cancel()
	if n.deployment, err = stores.Bind(ctx, n.cfg.Leases, n.cfg.Durable); err != nil {
		return err
	}
	if n.deployment == "" {
		n.cfg.Log.Warn("the lease store carries no identity of its deployment (stores.DeploymentKeeper): that it belongs to the durable store is not checked")
	}
	return nil
}

// checkStores raises an alarm if one of the stores is gone, or is another one than at the start. As long as it stands, no tenant is
// opened: leases of a store that the copies have left for another one say nothing. What is open is left alone: a store
// that is gone answers no renewal and takes no copy, and no store is left while a lease in it is live (stores.Reseed).
func (n *Node) checkStores(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.StoreTimeout)
	defer cancel()
	switch err := stores.CheckDeployment(ctx, n.cfg.Leases, n.cfg.Durable, n.deployment); {
	case err == nil:
		n.clearAlarm(messages.CodeDeploymentMismatch, "")
	case errors.Is(err, messages.ErrDeploymentMismatch):
		e := messages.AsError(err)
		n.raise(&messages.Error{Code: messages.CodeDeploymentMismatch, Object: e.Object, Message: e.Message})
	}
}
