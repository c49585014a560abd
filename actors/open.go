package actors

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
)

// begin begins an attempt to open: a lease child of its own, and with it a fence of its own.
func (t *tenant) begin() {
	if t.attempt > 0 {
		t.lease.Stop()
		t.snaps.Stop()
		t.lease, t.snaps, t.granted = nil, nil, messages.Lease{}
	}
	t.attempt++
	attempt, ref := t.attempt, t.self.Ref()
	cfg := t.node.cfg
	child, err := leaseactor.New(leaseactor.Config{
		Store: t.node.leases, Key: t.key, Owner: t.node.owner, TTL: cfg.TTL, Margin: cfg.Margin, CallTimeout: cfg.StoreTimeout,
		Now: cfg.Now, Spent: t.node.spent, Planted: cfg.Planted, Log: cfg.Log,
	}, func(msg any) { ref.Send(ofChild{attempt, msg}) })
	if err != nil {
		panic(err) // Config.Validate has accepted the same
	}
	t.fence = child.Fence()
	t.lease = t.self.Spawn(child)
}

// acquired begins the renewals: a restore may take longer than the lease.
func (t *tenant) acquired(lease messages.Lease) {
	t.granted = lease
	t.act.epoch.Store(lease.Epoch)
	t.restoredWith.Store(0)
	t.emit(messages.Lifecycle{Kind: messages.LifecycleAcquired})
	t.self.After(t.node.untilRenewal(), renewTick{t.attempt})
	t.step(machine.Acquired{Lease: lease})
}

func (t *tenant) restore() {
	attempt, epoch, ref := t.attempt, t.granted.Epoch, t.self.Ref()
	cfg := t.snapshotConfig(t.node.localFile(t.key, epoch))
	cfg.Prepare = func(context.Context) error { return t.prepare(epoch) }
	cfg.Rehearse = t.rehearsal(epoch)
	t.snaps = t.self.Spawn(snapshotactor.New(cfg, func(msg any) { ref.Send(ofChild{attempt, msg}) }))
	grant := snapshotactor.Grant{Epoch: t.granted.Epoch, Floor: t.granted.Floor, Marked: t.granted.HasLineage()}
	if stale := t.act.stale.Load(); stale != nil {
		grant.Stale = *stale
	}
	t.snaps.Send(snapshotactor.OpenTenant{Grant: grant})
}

// prepare makes room for the local files of an epoch. It runs on the snapshot child's goroutine.
func (t *tenant) prepare(epoch uint64) error {
	aside, err := t.node.prepareLocal(t.key, epoch)
	if err == nil {
		t.prepared.Store(epoch)
	}
	if aside {
		t.asides.Store(true)
	}
	return err
}

func (t *tenant) snapshotConfig(file string) snapshotactor.Config {
	cfg, act, cutting := t.node.cfg, t.act, &t.cutting
	return snapshotactor.Config{
		Store: slotted{t.node.durable(), act, t.self.Context()}, Key: t.key, Owner: t.node.owner, Fence: t.fence, Verifier: verifier{t.node, &t.restoredWith}, File: file,
		MaxImageBytes: t.node.maxImage(), Now: cfg.Now, CallTimeout: cfg.DurableTimeout, Retention: cfg.Retention, Planted: cfg.Planted, Log: cfg.Log,
		Cut: func(ctx context.Context) (snapshotactor.Image, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			cutting.Store(&cancel) // before the fence is looked at: what begins later than that is refused
			return cut(ctx, act, cfg.Now, (*ledgeractor.Handle).Cut)
		},
		CutLast: func(ctx context.Context) (snapshotactor.Image, error) {
			return cut(ctx, act, cfg.Now, (*ledgeractor.Handle).CutLast)
		},
	}
}

// cut copies the ledger for a snapshot.
func cut(ctx context.Context, act *activation, now func() time.Time, from func(*ledgeractor.Handle, context.Context) (ledgeractor.Image, error)) (snapshotactor.Image, error) {
	// A slot for the image that is about to be held in memory; it is returned with the answer.
	if err := act.takeSlot(ctx); err != nil {
		return snapshotactor.Image{}, err
	}
	// Read before the cut: what was acknowledged by then is in the image, and retention by age
	// takes a snapshot for older than it is, never for younger.
	at := now()
	image, err := from(act.ledger.Load(), ctx)
	return snapshotactor.Image{Bytes: image.Bytes, Events: image.Events, LastSeq: image.LastSeq, Version: image.Version, CutAt: at}, err
}

// restoredOpen is told what comes of a restore.
func (t *tenant) restoredOpen(m snapshotactor.Opened) {
	if m.Err == nil && t.state.Phase == machine.Restoring {
		t.restored, t.lastSeq = m.Restored, m.Restored.LastSeq
		t.emit(messages.Lifecycle{Kind: messages.LifecycleRestored, Position: m.Restored.From, Events: m.Restored.Events, LastSeq: m.Restored.LastSeq})
	}
	t.step(machine.Restored{Err: messages.AsError(m.Err)})
}

// restoredHash names the image that the local files hold; "": nothing was restored.
func (t *tenant) restoredHash() string {
	if m := t.restored.Manifest; m != nil {
		return m.SHA256
	}
	return ""
}

// noteSaved writes down that an image counts: see Node.noteSaved.
func (t *tenant) noteSaved(sha256 string) {
	n, key, epoch := t.node, t.key, t.granted.Epoch
	t.self.Go(func(context.Context) any { _ = n.noteSaved(key, epoch, sha256); return nil })
}

func (t *tenant) examineAside() {
	n, key := t.node, t.key
	t.self.Go(func(ctx context.Context) any { n.examineAside(ctx, key); return nil })
}

func (t *tenant) ledgerConfig(epoch uint64) ledgeractor.Config {
	cfg := t.node.cfg
	return ledgeractor.Config{
		Path: t.node.localFile(t.key, epoch), Key: t.key, Epoch: epoch, Fence: t.fence, Now: cfg.Now,
		Migrations: cfg.Migrations, Commands: cfg.Commands, Limits: cfg.Limits, MaxUnsaved: cfg.MaxUnsaved, MaxUnsavedBytes: cfg.MaxUnsavedBytes,
		Queries: t.node.queries, Planted: cfg.Planted, Log: cfg.Log,
	}
}

// rehearsal returns what tries the migrations that will run on the restored ledger, on the snapshot child's goroutine. On an empty one
// they do what they did on another: once was enough.
func (t *tenant) rehearsal(epoch uint64) func(context.Context) error {
	n, cfg, restored := t.node, t.ledgerConfig(epoch), &t.restoredWith
	return func(ctx context.Context) error {
		empty := restored.Load() == 0
		if int(max(0, restored.Load()-1)) >= len(cfg.Migrations) || empty && n.rehearsed.Load() {
			return nil
		}
		err := ledgeractor.Rehearse(ctx, cfg)
		if err == nil && empty {
			n.rehearsed.Store(true)
		}
		return err
	}
}

func (t *tenant) openLedger() {
	attempt, ref := t.attempt, t.self.Ref()
	child := ledgeractor.New(t.ledgerConfig(t.granted.Epoch), func(msg any) { ref.Send(ofChild{attempt, msg}) })
	t.ledger = t.self.Spawn(child)
	t.handle = child.Handle(t.ledger)
	t.act.ledger.Store(t.handle)
	if t.granted.Floor > 0 {
		t.snaps.Send(snapshotactor.SweepUpTo{Floor: t.granted.Floor})
	}
}

// openFailed is told why an open failed. The next one backs off for the same reason, if it has used up an epoch, or would have.
func (t *tenant) openFailed(err *messages.Error) {
	if contradicts(err.Code) || t.granted.Epoch > 0 && backsOff(err.Code) {
		t.act.failed.Store(err)
	}
	if err.Code == messages.CodeStorage {
		t.node.suspect(err)
	}
}
