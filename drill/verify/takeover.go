package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/messages"
)

// Proc is the verifier's name in the records.
const Proc = "verifier"

const (
	takeoverLimit = 20 * time.Second // for all tenants: a lease that nobody released runs out meanwhile
	pageRows      = 1000
)

// TakeOver opens every tenant on a node of its own, with nothing broken, and records its events. A tenant
// that cannot be opened is recorded as such, and is no error: Judge has its say about it.
func TakeOver(ctx context.Context, root string, where engine.Stores, keys []messages.Key, print func(string, ...any)) (err error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverLimit)
	defer cancel()
	log, err := record.Create(replica.RecordPath(root, Proc), Proc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	leases, err := where.OpenLeases(ctx)
	if err != nil {
		return fmt.Errorf("open the lease store: %w", err)
	}
	defer func() { err = errors.Join(err, leases.Close()) }()
	objects, err := where.OpenDurable(ctx)
	if err != nil {
		return fmt.Errorf("open the durable store: %w", err)
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	var failed writeError
	node, err := actors.Start(ctx, actors.Config{
		NodeName: Proc, StateRoot: filepath.Join(root, "state", Proc), Leases: leases, Durable: objects,
		TTL: replica.TTL, Margin: replica.Margin, RenewEvery: replica.RenewEvery, SnapshotEvery: time.Hour, IdleAfter: -1,
		Log: slog.New(slog.DiscardHandler),
		OnLifecycle: func(e messages.Lifecycle) {
			if e.Kind != messages.LifecycleRenewed {
				failed.note(log.Write(record.Line{Kind: record.Lifecycle, Key: e.Key.String(), Owner: e.Owner, Epoch: e.Epoch, Life: &e}))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("start the verifier's node: %w", err)
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeoverLimit)
		defer cancel()
		err = errors.Join(err, node.Shutdown(ending), failed.get())
	}()
	if err := log.Write(record.Line{Kind: record.Started, Owner: node.Owner()}); err != nil {
		return err
	}
	all, inner := errgroup.WithContext(ctx)
	all.SetLimit(8)
	for i, key := range keys {
		all.Go(func() error { return takeOver(inner, node, log, key, fmt.Sprintf("t%d", i+1), print) })
	}
	return all.Wait()
}

func takeOver(ctx context.Context, node *actors.Node, log *record.Writer, key messages.Key, name string, print func(string, ...any)) error {
	tenant, err := open(ctx, node, key)
	if err != nil {
		e := messages.AsError(err)
		print("%s cannot be taken over: %v", name, err)
		return log.Write(record.Line{Kind: record.TookOver, Key: key.String(), Code: e.Code, Object: e.Object, Text: err.Error()})
	}
	status, err := tenant.Status(ctx)
	if err != nil {
		return err
	}
	rows := 0
	for after := int64(0); ; {
		page, more, err := tenant.Events(ctx, after, pageRows)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		for _, e := range page {
			after = e.Seq
			rows++
			// The tenant column is guarded by the open's own verification; the images are read anew by Judge.
			l := record.Line{Kind: record.Row, Key: key.String(), Seq: e.Seq, Write: e.SubjectID, Idem: e.IdemKey, Tenant: string(key.Tenant)}
			if err := log.Write(l); err != nil {
				return err
			}
		}
		if !more {
			break
		}
	}
	print("%s e%d restored %s, %d events", name, status.Epoch, status.From, rows)
	return log.Write(record.Line{Kind: record.TookOver, Key: key.String(), Owner: node.Owner(), Epoch: status.Epoch, From: &status.From})
}

// open waits out whoever did not release its lease.
func open(ctx context.Context, node *actors.Node, key messages.Key) (*actors.Tenant, error) {
	for {
		tenant, err := node.Tenant(ctx, key.Org, key.Tenant)
		if err == nil {
			err = tenant.Open(ctx)
		}
		if messages.CodeOf(err) != messages.CodeHeld {
			return tenant, err
		}
		wait := time.NewTimer(max(10*time.Millisecond, min(messages.AsError(err).RetryAfter, 200*time.Millisecond)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, err
		}
	}
}

// writeError keeps the first failure of a callback that cannot return one.
type writeError struct {
	mu  sync.Mutex
	err error
}

func (w *writeError) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *writeError) get() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
