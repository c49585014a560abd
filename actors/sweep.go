package actors

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
	"github.com/leasehold/leasehold/stores"
)

const sweepPage = 500

// sweep deletes what a forget or an ended ownership has left behind: durable objects at or below a
// tenant's floor, late uploads of fenced holders included ([S11]), local files that are at or
// below the floor, and those of an ownership that ended long enough ago if a snapshot holds everything in them. It
// touches nothing of an ownership that may still be served, so it may run at any time, on any number of nodes.
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
		Planted: n.cfg.Planted, Log: n.cfg.Log,
	}, lease.Floor)
	if count > 0 {
		n.emit(messages.Lifecycle{Kind: messages.LifecycleSwept, Key: lease.Key, Owner: n.owner, Epoch: lease.Floor, Count: count, Code: messages.CodeOf(err)})
	}
	if err != nil && ctx.Err() == nil {
		n.log(lease.Key).Warn("sweep: not all leftovers could be deleted; tried again later", "floor", lease.Floor, "error", err)
	}
}

func (n *Node) sweepLocal(ctx context.Context, setAside time.Duration) {
	unsaved := 0
	for _, f := range n.localFolders() {
		if ctx.Err() != nil {
			return
		}
		if act, ok := n.active.Load(f.key); ok && !f.aside && act.(*activation).epoch.Load() <= f.epoch {
			continue // in use, or about to be
		}
		lease, known, err := n.cfg.Leases.Read(ctx, f.key)
		switch {
		case err == nil && known && lease.Floor >= f.epoch:
			n.removeFolder(f)
		case f.aside || err == nil && f.age >= setAside:
			if n.examine(ctx, f) {
				unsaved++
			}
		}
	}
	n.metrics.setAside.Set(float64(unsaved))
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
	level := slog.LevelInfo
	switch e.Kind {
	case messages.LifecycleRenewed, messages.LifecycleSnapshot, messages.LifecycleRetained: // as long as a tenant is used, every few seconds
		level = slog.LevelDebug
	}
	n.log(e.Key).Log(context.Background(), level, "tenant", attrs...)
}
