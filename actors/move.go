package actors

import (
	"context"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/messages"
)

// What a member of a cluster asks of its node beside requests: see package cluster.

// Name returns the node's name, which stays over restarts; see Config.NodeName.
func (n *Node) Name() string { return n.cfg.NodeName }

// Stopping reports whether the node has begun to shut down.
func (n *Node) Stopping() bool { return n.stopping.Load() }

// Has reports whether a tenant has an actor on this node: it is being opened, served or closed here. It
// waits for nothing.
func (n *Node) Has(key messages.Key) bool {
	act, ok := n.active.Load(key)
	return ok && !act.(*activation).gone()
}

// Serves reports whether this node serves a tenant at the moment. It waits for nothing.
func (n *Node) Serves(key messages.Key) bool {
	act, ok := n.active.Load(key)
	return ok && act.(*activation).serving.Load()
}

// Serving returns the keys of the tenants that this node serves at the moment, in no order. It waits for
// nothing.
func (n *Node) Serving() []messages.Key {
	var keys []messages.Key
	n.active.Range(func(key, act any) bool {
		if act.(*activation).serving.Load() {
			keys = append(keys, key.(messages.Key))
		}
		return true
	})
	return keys
}

// Lease reads the lease record of a tenant from the lease store; ok is false for a tenant that was never
// opened. The errors are those of stores.LeaseStore.
func (n *Node) Lease(ctx context.Context, key messages.Key) (lease messages.Lease, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.StoreTimeout)
	defer cancel()
	return n.cfg.Leases.Read(ctx, key)
}

// Move is Tenant.Handoff for a next owner that is known: whoever asks for the tenant meanwhile is refused with
// CodeDraining, and Owner names it. A tenant without an actor on this node is CodeNotOwner. When Move
// returns nil, the lease was released, or runs out if the lease store did not answer.
func (n *Node) Move(ctx context.Context, key messages.Key, next string) error {
	return n.ifHere(ctx, key, func(ctx context.Context, act *activation) error { return act.handOff(ctx, machine.Moved, next) })
}

// ifHere gives an order to a tenant that is open on this node. Unlike Tenant.command it never opens one, also
// not one that is just closing.
func (n *Node) ifHere(ctx context.Context, key messages.Key, order func(context.Context, *activation) error) error {
	act, ok := n.active.Load(key)
	if !ok {
		return notHere(key)
	}
	ctx, cancel := n.deadline(ctx)
	defer cancel()
	err := order(ctx, act.(*activation))
	if messages.CodeOf(err) == messages.CodeClosed { // not the cause of an unknown outcome
		return notHere(key)
	}
	return err
}

func notHere(key messages.Key) error {
	return &messages.Error{Code: messages.CodeNotOwner, Key: key.String(), Message: "the tenant is not open on this node"}
}

// naming adds the next owner to the refusal of a tenant that is being moved to it.
func (a *activation) naming(err error) error {
	next := a.next.Load()
	if next == nil || *next == "" {
		return err
	}
	e := messages.AsError(err)
	if e == nil || e.Code != messages.CodeDraining || e.Key != a.key.String() {
		return err
	}
	named := *e
	named.Owner = *next
	return &named
}
