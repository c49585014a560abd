package client

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/leasehold/leasehold/messages"
)

// Tenant is a handle on one tenant, wherever its owner is. All methods are safe for concurrent use.
//
// A handle remembers the newest state that one of its answers came from (Seen) and is never answered from
// an older one: it reads its own writes, and time does not run backwards for it, also when the tenant moves to
// another node. When a crash has taken events that the handle has seen (the declared loss of snapshot
// durability), the next call fails once with CodeHistoryLost, and nothing is done; the calls after it work on
// what is left. The same is told when the tenant was forgotten meanwhile and created anew. Two handles on one tenant
// know nothing of each other.
//
// Append, AppendAll, Call and CallOnce create a tenant that there is not. Every other method creates nothing: it is
// CodeUnknownTenant where there is no such tenant, or where it was forgotten and not written to since.
//
// Every method returns typed errors (messages.Error), those of actors.Tenant among them. What is a matter of
// where the tenant is, or of nodes that come and go, is not: the client tries again until the deadline of
// the context (Config.RequestTimeout where it has none). Then it returns CodeDeadlineExceeded, whose Cause is
// what it was refused with last, if nothing was done, and CodeUnknownOutcome if something may have been.
type Tenant struct {
	client *Client
	key    messages.Key

	mu   sync.Mutex
	seen messages.Seen
}

// Key returns the tenant's key.
func (t *Tenant) Key() messages.Key { return t.key }

// Seen returns the newest state that an answer to this handle came from.
func (t *Tenant) Seen() messages.Seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen
}

// do sends a request with the handle's mark, and moves the mark to what the reply shows.
func (t *Tenant) do(ctx context.Context, req messages.Request) (*messages.Reply, error) {
	req.Key, req.Seen = t.key, t.Seen()
	reply := t.client.Do(ctx, &req)
	t.learn(&req, reply)
	if reply.Error != nil {
		return nil, reply.Error
	}
	return reply, nil
}

// learn moves the mark: forwards with every success that tells a state, and to what is left when the owner
// says that history was lost. No other refusal moves it.
func (t *Tenant) learn(req *messages.Request, reply *messages.Reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := reply.Seen()
	switch {
	case reply.Error != nil && reply.Error.Code == messages.CodeHistoryLost:
		// Unless a reply that overtook this one has shown a later state of what is left.
		if t.seen == req.Seen || t.seen.Before(state) {
			t.seen = state
		}
	case reply.Error != nil && reply.Error.Code == messages.CodeUnknownTenant:
		// It was told that all of it is gone. Whoever creates the tenant does so at a later epoch.
		if t.seen == req.Seen {
			t.seen.Seq = 0
		}
	case reply.Error != nil || !tellsState(req.Action):
	case state.Epoch != t.seen.Epoch && (req.Action == messages.ActionSnapshot && t.seen != (messages.Seen{}) || req.Seen.Before(t.seen)):
		// A snapshot is taken without asking what the caller has seen; and what another request has shown while this one
		// was under way, this one has not asked about. The next request must ask whether this epoch has all of it.
	case t.seen.Before(state):
		t.seen = state
	}
}

// Append appends one event and returns its seq. With an idempotency key the append is repeated until its
// outcome is known; one that is there already returns the first one's seq and Duplicate, and is no error.
func (t *Tenant) Append(ctx context.Context, event messages.Event) (messages.Appended, error) {
	out, err := t.AppendAll(ctx, []messages.Event{event})
	if err != nil {
		return messages.Appended{}, err
	}
	return out[0], nil
}

// AppendAll appends up to messages.MaxBatchEvents events, all or none. It is repeated only if each of them has
// an idempotency key.
func (t *Tenant) AppendAll(ctx context.Context, events []messages.Event) ([]messages.Appended, error) {
	reply, err := t.do(ctx, messages.Request{Action: messages.ActionAppend, Events: events})
	if err != nil {
		return nil, err
	}
	return reply.Appended, nil
}

// Call runs a registered command at the owner, in one transaction; in is a JSON document or empty. It is
// never repeated after a failure that leaves open whether it ran: that is CodeUnknownOutcome. CodeNotFound: no such
// command; CodeCommandFailed: it returned an error.
func (t *Tenant) Call(ctx context.Context, command string, in json.RawMessage) (json.RawMessage, error) {
	reply, err := t.do(ctx, messages.Request{Action: messages.ActionCall, Command: command, Input: in})
	if err != nil {
		return nil, err
	}
	return reply.Output, nil
}

// CallOnce is Call for a command that runs once for its idempotency key, however often it is asked for: it
// is repeated until its outcome is known. duplicate says that it had run before, and out is what it returned
// then. An empty key is CodeInvalidArgument.
func (t *Tenant) CallOnce(ctx context.Context, command, idemKey string, in json.RawMessage) (out json.RawMessage, duplicate bool, err error) {
	if idemKey == "" {
		return nil, false, invalid("a command that runs once needs an idempotency key")
	}
	reply, err := t.do(ctx, messages.Request{Action: messages.ActionCall, Command: command, IdemKey: idemKey, Input: in})
	if err != nil {
		return nil, false, err
	}
	return reply.Output, reply.Duplicate, nil
}

// Query runs one read-only statement within the limits of the node. Arguments are what messages.SQLValue takes; a value of the
// result is nil, int64, float64, string or []byte, as on the node itself.
func (t *Tenant) Query(ctx context.Context, sql string, args ...any) (*messages.Result, error) {
	req := messages.Request{Action: messages.ActionQuery, SQL: sql}
	for _, arg := range args {
		raw, err := messages.EncodeValue(arg)
		if err != nil {
			return nil, err
		}
		req.Args = append(req.Args, raw)
	}
	reply, err := t.do(ctx, req)
	if err != nil {
		return nil, err
	}
	return reply.Result, nil
}

// Events returns up to limit events after a seq, in order, and whether there are more; 0: the node's limit.
func (t *Tenant) Events(ctx context.Context, after int64, limit int) (events []messages.StoredEvent, more bool, err error) {
	reply, err := t.do(ctx, messages.Request{Action: messages.ActionEvents, After: after, Limit: limit})
	if err != nil {
		return nil, false, err
	}
	return reply.Events, reply.More, nil
}

// Snapshot takes a snapshot now and returns its manifest: what was acknowledged before survives the node.
func (t *Tenant) Snapshot(ctx context.Context) (messages.Manifest, error) {
	reply, err := t.do(ctx, messages.Request{Action: messages.ActionSnapshot})
	if err != nil {
		return messages.Manifest{}, err
	}
	return *reply.Manifest, nil
}

// Handoff closes the tenant at its owner without loss: the next request opens it again, maybe elsewhere. A tenant
// that is open nowhere is CodeNotFound, or CodeNotOwner where the transport reaches a node that is no member of a
// cluster; so it is with Abandon.
func (t *Tenant) Handoff(ctx context.Context) error { return t.order(ctx, messages.ActionHandoff) }

// Abandon closes the tenant at its owner at once, without a last snapshot: events since the one before are
// lost, unless they were replicated.
func (t *Tenant) Abandon(ctx context.Context) error { return t.order(ctx, messages.ActionAbandon) }

// Forget deletes the tenant: every copy and every file. The next request begins with nothing.
func (t *Tenant) Forget(ctx context.Context) error { return t.order(ctx, messages.ActionForget) }

func (t *Tenant) order(ctx context.Context, action messages.Action) error {
	_, err := t.do(ctx, messages.Request{Action: action})
	return err
}
