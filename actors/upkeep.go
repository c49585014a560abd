package actors

import (
	"time"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/snapshotactor"
)

// retention is what a tenant knows of the copies that nobody can need any more. It decides nothing of the tenant's state.
type retention struct {
	published uint64 // highest snapshot of this epoch that is in the store
	proven    uint64 // highest one for which a renewal sent after its publication succeeded
	done      uint64 // proven, when old copies were last deleted
	running   bool
}

// renewTick sends a renewal, with the newest snapshot that is published by now: when that renewal
// succeeds, no later owner can have listed before it ([S9]).
func (t *tenant) renewTick() {
	switch t.state.Phase {
	case machine.SavingLast, machine.StartingOver, machine.Releasing, machine.Closed:
		return
	}
	t.lease.Send(leaseactor.Renew{Tag: t.retention.published})
	t.self.After(t.node.untilRenewal(), renewTick{t.attempt})
	idle := t.node.cfg.IdleAfter
	if idle >= 0 && t.state.Phase == machine.Serving && t.act.inFlight.Load() == 0 && time.Duration(t.node.sinceStart()-t.act.used.Load()) >= idle {
		t.node.metrics.evictions.Inc()
		t.order(machine.Idle)
	}
}

func (t *tenant) renewed(m leaseactor.Renewed) {
	t.granted = m.Lease
	t.node.metrics.lag.Observe(max(0, t.fence.Deadline().Sub(t.node.cfg.Now())).Seconds())
	t.emit(messages.Lifecycle{Kind: messages.LifecycleRenewed})
	tag := m.Tag
	if t.node.cfg.Planted.Has(planted.RetentionRenewalBefore) {
		tag = t.retention.published
	}
	t.retention.proven = max(t.retention.proven, tag)
	t.retain()
}

// retain deletes old copies if there are any that nobody can need any more.
func (t *tenant) retain() {
	r := &t.retention
	if t.snaps == nil || r.running || r.proven <= r.done || t.state.Phase.Opening() {
		return
	}
	r.running, r.done = true, r.proven
	t.snaps.Send(snapshotactor.RetainFrom{Proven: r.proven})
}

func (t *tenant) retained(m snapshotactor.Retained) {
	t.retention.running = false
	if m.Count > 0 {
		t.emit(messages.Lifecycle{Kind: messages.LifecycleRetained, Count: m.Count, Code: messages.CodeOf(m.Err)})
	}
	if m.Err != nil {
		t.retention.done = 0 // tried again after the next renewal
		return
	}
	t.retain()
}

// retainUnproven is the planted fault retention-no-renewal.
func (t *tenant) retainUnproven() {
	if t.node.cfg.Planted.Has(planted.RetentionNoRenewal) {
		t.retention.proven = t.retention.published
		t.retain()
	}
}
