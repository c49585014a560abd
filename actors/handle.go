package actors

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// Tenant is a handle on one tenant. It stays valid when the tenant's actor closes (idleness, a lost
// lease, a handoff): the next call opens the tenant again, or says who holds it. It cannot close
// the ledger. All methods are safe for concurrent use.
//
// Every method returns typed errors (messages.Error). Common to all: CodeHeld if another node holds
// the tenant, CodeFenced if the lease is not provably held, CodeDraining during a handoff or
// shutdown, CodeOverloaded beyond the bounds of the Config, CodeDeadlineExceeded or CodeCanceled if
// the caller's context ended before the work began, CodeUnknownOutcome if the work may or may not
// stand, CodeUnavailable if a store does not answer, CodeCorrupt if the durable copy fails its
// verification. A context without a deadline gets Config.RequestTimeout.
//
// Append, Call, Run and Open create a tenant that there is not. Every other method creates nothing: it is
// CodeUnknownTenant where there is no such tenant, or where it was forgotten and not written to since.
type Tenant struct {
	node *Node
	key  messages.Key
}

// Tenant opens a tenant, or finds it open, and returns a handle on it. Where there is no such tenant nothing is
// opened, and nothing created: the first write through the handle does that. Besides the common errors it
// returns CodeInvalidID for malformed ids, before anything is touched.
func (n *Node) Tenant(ctx context.Context, org messages.OrgID, id messages.TenantID) (*Tenant, error) {
	key, err := messages.NewKey(org, id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := n.deadline(ctx)
	defer cancel()
	unknown := func(context.Context, messages.Key, messages.Lease) error { return messages.UnknownTenant(key) }
	if _, err := n.findOr(ctx, key, unknown); err != nil && !errors.Is(err, messages.ErrUnknownTenant) {
		return nil, err
	}
	return &Tenant{node: n, key: key}, nil
}

// Open opens the tenant if it is not open, and creates it if there is none.
func (t *Tenant) Open(ctx context.Context) error {
	ctx, cancel := t.node.deadline(ctx)
	defer cancel()
	_, err := t.node.find(ctx, t.key, true)
	return err
}

func (n *Node) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, n.cfg.RequestTimeout)
}

// find returns an activation that serves. Unless it may create the tenant, it reads the lease store before it has a
// tenant opened that is not: where there is none, nothing is acquired to find that out ([Q2]).
func (n *Node) find(ctx context.Context, key messages.Key, create bool) (*activation, error) {
	if create {
		return n.findOr(ctx, key, nil)
	}
	return n.findOr(ctx, key, n.Absent)
}

// findOr is find; absent says why a tenant whose record does not exist is not opened. nil: it may be created.
func (n *Node) findOr(ctx context.Context, key messages.Key, absent func(context.Context, messages.Key, messages.Lease) error) (*activation, error) {
	create := absent == nil
	if act, ok := n.active.Load(key); ok && act.(*activation).serving.Load() {
		return act.(*activation), nil
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, messages.AsError(err)
		}
		exists := create
		if !create && !n.Has(key) {
			lease, _, err := n.Lease(ctx, key)
			switch {
			case err != nil:
				return nil, err
			case !lease.Exists():
				if err := absent(ctx, key, lease); err != nil {
					return nil, err
				}
			}
			exists = true
		}
		reply := make(chan found, 1)
		if !n.supervisor.Send(find{ctx: ctx, key: key, exists: exists, reply: reply}) {
			return nil, machine.NodeDown()
		}
		select {
		case out := <-reply:
			if out.wait == nil {
				return out.act, out.err
			}
			select {
			case <-out.wait:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		case <-n.down:
			return nil, machine.NodeDown()
		}
	}
}

// Key returns the tenant's key.
func (t *Tenant) Key() messages.Key { return t.key }

// passingPoll is how often a caller looks whether a tenant that the node was closing serves again.
const passingPoll = 50 * time.Millisecond

// use runs op on the tenant's ledger, opening the tenant if need be; create says whether also one that there is not.
func (t *Tenant) use(ctx context.Context, name string, create bool, op func(context.Context, *ledgeractor.Handle) error) error {
	return t.serve(ctx, name, create, func(ctx context.Context, act *activation) error { return op(ctx, act.ledger.Load()) })
}

// serve runs op on an activation that serves, within the bounds of requests.
func (t *Tenant) serve(ctx context.Context, name string, create bool, op func(context.Context, *activation) error) (err error) {
	n := t.node
	begun := n.cfg.Now()
	defer func() { n.metrics.request(name, n.cfg.Now().Sub(begun), err) }()
	ctx, cancel := n.deadline(ctx)
	defer cancel()
	if n.inFlight.Add(1) > int64(n.cfg.MaxRequests) {
		n.inFlight.Add(-1)
		return &messages.Error{Code: messages.CodeOverloaded, Key: t.key.String(), RetryAfter: 100 * time.Millisecond,
			Message: "too many requests on this node"}
	}
	n.metrics.inFlight.Inc()
	defer func() { n.inFlight.Add(-1); n.metrics.inFlight.Dec() }()
	return t.onActivation(ctx, create, func(act *activation) error { return act.run(ctx, op) })
}

// onActivation calls f with an activation that serves, and again with the next one if the first was
// closing for reasons of the node's own (idleness, eviction): what f asked for had not begun then.
func (t *Tenant) onActivation(ctx context.Context, create bool, f func(*activation) error) error {
	for {
		act, err := t.node.find(ctx, t.key, create)
		if err != nil {
			return err
		}
		err = f(act)
		if !act.turnedAway(err) {
			return err
		}
		if t.node.stopping.Load() {
			return machine.NodeDown()
		}
		select {
		case <-act.ref.Done():
		case <-time.After(passingPoll):
			// A handoff of the node's own that failed: the tenant serves again.
		case <-ctx.Done():
			return messages.AsError(ctx.Err())
		}
	}
}

// turnedAway reports whether err is this activation's own word that it did nothing, because it was
// closing, or draining for reasons that callers are not told. Neither an unknown outcome, whatever its
// cause, nor what application code returned is that.
func (a *activation) turnedAway(err error) bool {
	e := messages.AsError(err)
	if e == nil || e.Key != a.key.String() {
		return false
	}
	return e.Code == messages.CodeClosed || (e.Code == messages.CodeDraining && a.passing.Load())
}

func (a *activation) run(ctx context.Context, op func(context.Context, *activation) error) error {
	if a.inFlight.Add(1) > int64(a.node.cfg.MaxTenantRequests) {
		a.inFlight.Add(-1)
		return &messages.Error{Code: messages.CodeOverloaded, Key: a.key.String(), RetryAfter: 100 * time.Millisecond,
			Message: "too many requests on this tenant"}
	}
	defer a.inFlight.Add(-1)
	a.used.Store(a.node.sinceStart())
	err := a.naming(op(ctx, a))
	if messages.CodeOf(err) == messages.CodeStorage {
		a.cramped.Store(true)
		a.node.suspect(err)
	}
	return err
}

// Append appends one event and returns its seq. An idempotency key that is there already returns
// the first one's seq and Duplicate, and is no error. CodeInvalidArgument and CodeTooLarge refuse
// an event that cannot be stored.
func (t *Tenant) Append(ctx context.Context, event messages.Event) (messages.Appended, error) {
	out, err := t.AppendAll(ctx, []messages.Event{event})
	if err != nil {
		return messages.Appended{}, err
	}
	return out[0], nil
}

// AppendAll appends up to messages.MaxBatchEvents events, all or none.
func (t *Tenant) AppendAll(ctx context.Context, events []messages.Event) ([]messages.Appended, error) {
	out, _, err := t.AppendAt(ctx, events)
	return out, err
}

// Run runs fn in one transaction of the ledger: all of it stands, or nothing. An error of fn rolls
// it back and is returned (errors.Is sees it); a panic of fn is CodePanic. fn must not keep tx.
func (t *Tenant) Run(ctx context.Context, fn func(tx *ledgeractor.Tx) error) error {
	return t.use(ctx, "run", true, func(ctx context.Context, l *ledgeractor.Handle) error {
		ctx, done := t.node.untilItStops(ctx)
		defer done()
		return l.Run(ctx, fn)
	})
}

// untilItStops ends a ctx with the node: application code that waits for something must not keep a
// node from stopping until its caller's deadline.
func (n *Node) untilItStops(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	unwatch := context.AfterFunc(n.life, cancel)
	return ctx, func() { unwatch(); cancel() }
}

// Call runs a registered command at the owner, in one transaction. CodeNotFound: no such command;
// CodeCommandFailed: it returned an error.
func (t *Tenant) Call(ctx context.Context, command string, in json.RawMessage) (json.RawMessage, error) {
	out, _, err := t.CallAt(ctx, command, in)
	return out, err
}

// Query runs one read-only statement within Config.Limits. CodeReadOnly refuses what is not a plain
// read, CodeSQL what the database does not understand.
func (t *Tenant) Query(ctx context.Context, sql string, args ...any) (out *ledgeractor.Result, err error) {
	err = t.use(ctx, "query", false, func(ctx context.Context, l *ledgeractor.Handle) error {
		out, err = l.Query(ctx, sql, args...)
		return err
	})
	return out, err
}

// Events returns up to limit events after a seq, in order, and whether there are more.
func (t *Tenant) Events(ctx context.Context, after int64, limit int) (out []messages.StoredEvent, more bool, err error) {
	err = t.use(ctx, "events", false, func(ctx context.Context, l *ledgeractor.Handle) error {
		out, more, err = l.Events(ctx, after, limit)
		return err
	})
	return out, more, err
}

// command sends an order to the tenant actor, opening the tenant if need be. It creates none.
func (t *Tenant) command(ctx context.Context, name string, order func(context.Context, *activation) error) (err error) {
	n := t.node
	begun := n.cfg.Now()
	defer func() { n.metrics.request(name, n.cfg.Now().Sub(begun), err) }()
	ctx, cancel := n.deadline(ctx)
	defer cancel()
	return t.onActivation(ctx, false, func(act *activation) error {
		act.used.Store(n.sinceStart())
		return order(ctx, act)
	})
}

// An order (Snapshot, Handoff, Abandon, Forget) has a point of no return (Q1). When it is interrupted after that, by the end
// of ctx, a shutdown, a lost lease, a store without an answer or a bug, the error is CodeUnknownOutcome, with the cause:
// it may have been carried out, or still be, and must not be given again blindly. Every other error says that nothing
// was done.

// Snapshot publishes a snapshot now and returns its manifest. Snapshots asked for together run one
// after the other. One that is interrupted once its upload has begun is CodeUnknownOutcome; the next one settles it.
func (t *Tenant) Snapshot(ctx context.Context) (manifest messages.Manifest, err error) {
	err = t.command(ctx, "snapshot", func(ctx context.Context, act *activation) error {
		manifest, err = act.snapshot(ctx)
		return err
	})
	return manifest, err
}

// Handoff refuses new work, finishes what is in flight, publishes a final snapshot and releases the
// lease: the next owner starts at once with every acknowledged write. If the flush fails, or ctx
// ends before it, the tenant keeps its lease and serves again. The point of no return is the release.
func (t *Tenant) Handoff(ctx context.Context) error {
	return t.command(ctx, "handoff", func(ctx context.Context, act *activation) error { return act.handOff(ctx, machine.Requested, "") })
}

// Abandon releases the lease at once, without a flush: what no snapshot holds is lost. There is no way back from its
// beginning.
func (t *Tenant) Abandon(ctx context.Context) error {
	return t.command(ctx, "abandon", func(ctx context.Context, act *activation) error { return act.abandon(ctx) })
}

// Forget deletes every copy of the tenant's ledger and every local file, for good; the next open
// starts empty at the next epoch. First it takes a snapshot, so that a forget which fails costs nothing: as long as that
// cannot be published, nothing is done, and the tenant serves again. Then there is no way back: after
// CodeUnknownOutcome a look tells: if it is CodeUnknownTenant the tenant is gone, and the sweep deletes what is left of
// its copies. Whoever forgets it again may forget what was written since.
func (t *Tenant) Forget(ctx context.Context) error {
	return t.command(ctx, "forget", func(ctx context.Context, act *activation) error { return act.forget(ctx) })
}

// Status describes the tenant as it is on this node.
func (t *Tenant) Status(ctx context.Context) (status Status, err error) {
	err = t.command(ctx, "status", func(ctx context.Context, act *activation) error {
		status, err = act.status(ctx)
		return err
	})
	return status, err
}
