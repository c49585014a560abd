package actors

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
	"github.com/leasehold/leasehold/stores"
)

const sweepPage = 500

// sweep deletes what a forget or an ended ownership has left behind: durable objects at or below a
// tenant's floor, late uploads of fenced holders included ([S11]), and local files that are at or
// below the floor, or were set aside long enough. It touches nothing of an ownership that may still
// be served, so it may run at any time, on any number of nodes.
func (n *Node) sweep(ctx context.Context, setAside time.Duration) {
	n.sweepLocal(ctx, setAside)
	lister, ok := n.cfg.Leases.(stores.LeaseLister)
	if !ok {
		return
	}
	for after := ""; ; {
		page, err := lister.Forgotten(ctx, after, sweepPage)
		if err != nil {
			n.cfg.Log.Warn("sweep: the lease store does not answer; tried again later", "error", err)
			return
		}
		for _, lease := range page {
			n.sweepTenant(ctx, lease)
			after = lease.Key.String()
		}
		if len(page) < sweepPage || ctx.Err() != nil {
			return
		}
	}
}

func (n *Node) sweepTenant(ctx context.Context, lease messages.Lease) {
	count, err := snapshotactor.Sweep(ctx, snapshotactor.Config{
		Store: n.cfg.Durable, Key: lease.Key, Owner: n.owner, Now: n.cfg.Now, CallTimeout: n.cfg.DurableTimeout,
		Planted: n.cfg.Planted, Log: n.log(lease.Key),
	}, lease.Floor)
	if count > 0 {
		n.emit(messages.Lifecycle{Kind: messages.LifecycleSwept, Key: lease.Key, Owner: n.owner, Epoch: lease.Floor, Count: count, Code: messages.CodeOf(err)})
	}
	if err != nil && ctx.Err() == nil {
		n.log(lease.Key).Warn("sweep: not all leftovers could be deleted; tried again later", "floor", lease.Floor, "error", err)
	}
}

func (n *Node) sweepLocal(ctx context.Context, setAside time.Duration) {
	n.localFolders(func(key messages.Key, epoch uint64, path string, age time.Duration) {
		if ctx.Err() != nil {
			return
		}
		if act, ok := n.active.Load(key); ok && act.(*activation).epoch.Load() <= epoch {
			return // in use, or about to be
		}
		lease, known, err := n.cfg.Leases.Read(ctx, key)
		if err != nil || (age < setAside && (!known || lease.Floor < epoch)) {
			return
		}
		// By its epoch's folder, never by the tenant's: an open may be creating a later one.
		if err := os.RemoveAll(path); err != nil {
			n.log(key).Warn("sweep: local files could not be deleted; tried again later", "epoch", epoch, "error", err)
		}
	})
}

// tell calls OnLifecycle. A panic of the application's must not take a tenant, or the node, with it.
func (n *Node) tell(e messages.Lifecycle) {
	if n.cfg.OnLifecycle == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			// The value may hold personal data: the log gets its type.
			n.log(e.Key).Error("panic in OnLifecycle", "event", e.Kind, "type", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
		}
	}()
	n.cfg.OnLifecycle(e)
}

// emit publishes a lifecycle event.
func (n *Node) emit(e messages.Lifecycle) {
	e.At = n.cfg.Now()
	n.metrics.lifecycle.WithLabelValues(string(e.Kind), string(e.Code)).Inc()
	n.tell(e)
	attrs := []any{"event", e.Kind, "epoch", e.Epoch}
	for _, a := range []struct {
		name  string
		value any
		show  bool
	}{
		{"position", e.Position.String(), !e.Position.IsEmpty()}, {"code", e.Code, e.Code != ""}, {"reason", e.Reason, e.Reason != ""},
		{"object", e.Object, e.Object != ""}, {"count", e.Count, e.Count > 0}, {"events", e.Events, e.Events > 0},
	} {
		if a.show {
			attrs = append(attrs, a.name, a.value)
		}
	}
	if e.Kind == messages.LifecycleRenewed {
		n.log(e.Key).Debug("tenant", attrs...)
		return
	}
	n.log(e.Key).Info("tenant", attrs...)
}
