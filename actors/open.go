package actors

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/snapshotactor"
)

// acquire begins an attempt: a lease child of its own, and with it a fence of its own.
func (t *tenant) acquire() {
	t.gen++
	gen, ref := t.gen, t.self.Ref()
	cfg := t.node.cfg
	child, err := leaseactor.New(leaseactor.Config{
		Store: t.node.leases, Key: t.key, Owner: t.node.owner, TTL: cfg.TTL, Margin: cfg.Margin, CallTimeout: cfg.StoreTimeout,
		Now: cfg.Now, Spent: t.node.spent, Planted: cfg.Planted, Log: cfg.Log,
	}, func(msg any) { ref.Send(fromLease{gen, msg}) })
	if err != nil {
		t.end(err)
		return
	}
	t.fence = child.Fence()
	t.lease = t.self.Spawn(child)
	if cfg.Planted.Has(planted.ListBeforeGrant) {
		t.self.Go(func(ctx context.Context) any {
			names, _ := snapshotactor.ListNames(ctx, t.snapshotConfig("", gen))
			t.act.stale.Store(&names)
			return acquireAgain{gen}
		})
		return
	}
	if before := t.act.before; t.gen == 1 && before != nil && contradicts(before.Code) {
		t.lookFirst(before)
		return
	}
	t.lease.Send(leaseactor.Acquire{})
}

func (t *tenant) acquireAgain() {
	if t.state != StateOpening {
		return
	}
	if t.granted.Epoch == 0 && !t.anybodyWaits() {
		t.end(t.act.closed())
		return
	}
	t.lease.Send(leaseactor.Acquire{})
}

func (t *tenant) anybodyWaits() bool {
	for _, o := range t.openers {
		if o.ctx.Err() == nil {
			return true
		}
	}
	return false
}

func (t *tenant) acquireFailed(err error) {
	if doomed := t.doomed; doomed != nil {
		// The fence was closed meanwhile, and so a grant too is reported as a failure: it is handed back.
		t.setState(StateClosing)
		t.release(&release{then: func() { t.end(doomed) }})
		return
	}
	// A lease under this node's name is this process's own, given up and not confirmed yet, or that
	// of a predecessor, which is dead because the state root is locked: it is waited out instead of
	// being reported. Unless it moves: then it is that of a living node with the same name.
	var e *messages.Error
	if errors.As(err, &e) && e.Code == messages.CodeHeld && messages.OwnerNode(e.Owner) == t.node.cfg.NodeName && !t.livesOn(e) {
		wait := min(max(e.RetryAfter, 10*time.Millisecond), t.node.cfg.RenewEvery)
		t.self.After(wait, acquireAgain{t.gen})
		return
	}
	t.end(err)
}

// livesOn reports whether the lease that is being waited out was renewed, or taken, by another process
// since it was last looked at.
func (t *tenant) livesOn(held *messages.Error) bool {
	if held.Lease == nil || held.Owner == t.node.owner {
		return false
	}
	before := t.awaited
	t.awaited = *held.Lease
	return before.Epoch > 0 && (before.Epoch != t.awaited.Epoch || t.awaited.End.After(before.End))
}

// acquired goes on to restore. Renewals run from here on: a restore may take longer than the lease.
func (t *tenant) acquired(lease messages.Lease) {
	t.granted = lease
	t.act.epoch.Store(lease.Epoch)
	t.restoredWith.Store(0)
	t.emit(messages.Lifecycle{Kind: messages.LifecycleAcquired})
	t.self.After(t.node.untilRenewal(), renewTick{t.gen})
	if t.doomed != nil {
		t.giveUp(t.doomed)
		return
	}
	gen, ref := t.gen, t.self.Ref()
	cfg := t.snapshotConfig(t.node.localFile(t.key, lease.Epoch), gen)
	cfg.Prepare = func(context.Context) error { return t.prepare(lease.Epoch) }
	cfg.Rehearse = t.rehearsal(lease.Epoch)
	t.snaps = t.self.Spawn(snapshotactor.New(cfg, func(msg any) { ref.Send(fromSnapshots{gen, msg}) }))
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

func (t *tenant) snapshotConfig(file string, gen int) snapshotactor.Config {
	cfg, act, cutting := t.node.cfg, t.act, &t.last.cutting
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

// restoredOpen handles the answer to OpenTenant.
func (t *tenant) restoredOpen(m snapshotactor.Opened) {
	if t.state != StateOpening {
		return
	}
	if fenced := t.fence.Check(); errors.Is(m.Err, messages.ErrCorrupt) && fenced != nil {
		// A successor may own the lineage by now, and its retention may have taken what this open
		// listed: that is no damage, and must not be reported as such.
		m.Err = fenced
	}
	if m.Err != nil {
		t.emit(failure(messages.LifecycleFailed, m.Err))
		if errors.Is(m.Err, messages.ErrLineageAhead) || errors.Is(m.Err, messages.ErrLineageMissing) {
			t.readRecordAgain(messages.AsError(m.Err))
			return
		}
		t.giveUp(m.Err)
		return
	}
	t.restored, t.lastSeq = m.Restored, m.Restored.LastSeq
	t.emit(messages.Lifecycle{Kind: messages.LifecycleRestored, Position: m.Restored.From, Events: m.Restored.Events, LastSeq: m.Restored.LastSeq})
	saved := ""
	if m.Restored.Manifest != nil {
		saved = m.Restored.Manifest.SHA256
	}
	gen, epoch := t.gen, t.granted.Epoch
	t.self.Go(func(context.Context) any { return noted{gen, t.node.noteSaved(t.key, epoch, saved)} })
}

// noted opens the ledger: from here on, its files may hold more than what was restored.
func (t *tenant) noted(err error) {
	if t.state != StateOpening {
		return
	}
	if err != nil {
		t.giveUp(err)
		return
	}
	if !t.granted.HasLineage() {
		t.lease.Send(leaseactor.MarkLineage{}) // goes on in lineageMarked
		return
	}
	t.openLedger()
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
	gen, ref := t.gen, t.self.Ref()
	child := ledgeractor.New(t.ledgerConfig(t.granted.Epoch), func(msg any) { ref.Send(fromLedger{gen, msg}) })
	t.ledger = t.self.Spawn(child)
	t.handle = child.Handle(t.ledger)
	t.act.ledger.Store(t.handle)
	if t.granted.Floor > 0 {
		t.snaps.Send(snapshotactor.SweepUpTo{Floor: t.granted.Floor})
	}
}

func (t *tenant) ledgerOpened(m ledgeractor.Opened) {
	if t.state != StateOpening {
		return
	}
	if m.Err != nil {
		t.emit(failure(messages.LifecycleFailed, m.Err))
		t.giveUp(m.Err)
		return
	}
	if m.Events < t.restored.Events || m.LastSeq < t.restored.LastSeq {
		// SQLite makes an empty file where there is none.
		err := storageError(t.key, errors.New("the restored ledger is not at its place"))
		t.emit(failure(messages.LifecycleFailed, err))
		t.giveUp(err)
		return
	}
	t.lastSeq = m.LastSeq
	t.act.needs.Store(int64(m.Needs))
	began := t.restored.Began
	t.act.began.Store(&began)
	t.act.used.Store(t.node.sinceStart()) // an open may take longer than IdleAfter
	t.setState(StateServing)
	t.served = true
	t.act.opened.Store(true)
	t.node.clearAlarm(messages.CodeLineageAhead, t.key.String())
	t.node.clearAlarm(messages.CodeLineageMissing, t.key.String())
	t.emit(messages.Lifecycle{Kind: messages.LifecycleServing, Events: m.Events, LastSeq: m.LastSeq})
	t.node.metrics.openTime.Observe(t.node.cfg.Now().Sub(t.begun).Seconds())
	for _, o := range t.openers {
		o.reply <- found{act: t.act}
	}
	t.openers = nil
	t.self.After(t.node.cfg.SnapshotEvery, snapshotTick{t.gen})
	if t.asides.Load() {
		t.self.Go(func(ctx context.Context) any { t.node.examineAside(ctx, t.key); return nil })
	}
}

// giveUp ends an open or a serving tenant that cannot go on: the lease is handed back without a
// flush, and err answers everyone who waits.
func (t *tenant) giveUp(err error) {
	if t.state == StateClosing {
		t.endWithoutLast()
		return
	}
	if e := messages.AsError(err); t.state == StateOpening {
		if t.granted.Epoch > 0 && backsOff(e.Code) {
			t.act.failed.Store(e)
		}
		if e.Code == messages.CodeStorage {
			t.node.suspect(err)
		}
	}
	t.setState(StateClosing)
	if t.fence != nil {
		t.fence.Close(messages.ReasonReleased)
	}
	if t.granted.Epoch == 0 {
		// An acquire may be in flight: its grant must be handed back.
		t.doomed = err
		t.setState(StateOpening)
		t.answerAll(err)
		return
	}
	// Whoever waits is answered after the release, so that nobody who tries elsewhere meets a lease
	// that is about to be handed back.
	t.release(&release{then: func() { t.end(err) }})
}

func failure(kind messages.LifecycleKind, err error) messages.Lifecycle {
	e := messages.AsError(err)
	return messages.Lifecycle{Kind: kind, Code: e.Code, Reason: e.Reason, Object: e.Object}
}
