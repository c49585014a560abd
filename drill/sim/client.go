package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/messages"
)

// client is one user of a tenant. It asks the node that served it last, goes where "held" tells it
// to, and tries another one when it gets nowhere.
type client struct {
	w    *world
	key  messages.Key
	name string
	r    *rand.Rand
	home int
	n    int
	seen int64 // the highest seq that it was told
}

func newClient(w *world, key messages.Key, name string) *client {
	name = shortKey(key) + "-" + name
	return &client{w: w, key: key, name: name, r: stream(w.Seed, "client "+name)}
}

// run works until ctx ends.
func (c *client) run(ctx context.Context) {
	think := c.w.Profile.Think
	if think == 0 {
		think = 2 * time.Second
	}
	for rest(ctx, around(c.r, think)) {
		switch what := c.r.Float64(); {
		case what < 0.4:
			c.append(ctx)
		case what < 0.65:
			c.appendOnce(ctx)
		case what < 0.8:
			c.transact(ctx)
		case what < 0.97:
			c.read(ctx)
		default:
			c.count(ctx)
		}
	}
}

// runWorkload calls the user's workload until ctx ends.
func (c *client) runWorkload(ctx context.Context) {
	for rest(ctx, around(c.r, 2*time.Second)) {
		c.use(ctx, 20*time.Second, "workload", func(ctx context.Context, t *actors.Tenant, _ *life) error {
			return c.w.Workload(ctx, c.r, t)
		})
	}
}

// rest returns false as soon as ctx ends.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// pick returns a process to ask; nil if none is up.
func (c *client) pick() *life {
	for range c.w.nodes {
		if l := c.w.nodes[c.home%len(c.w.nodes)].current(); l != nil {
			return l
		}
		c.home++
	}
	return nil
}

// use opens the tenant at a node and does something with it. Every error must be a typed one.
func (c *client) use(ctx context.Context, timeout time.Duration, what string, do func(context.Context, *actors.Tenant, *life) error) error {
	l := c.pick()
	if l == nil {
		return noAnswer("every node is down")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tenant, err := l.node.Tenant(ctx, c.key.Org, c.key.Tenant)
	if err == nil {
		err = do(ctx, tenant, l)
	}
	c.w.judge(c.key, what, l, err)
	var e *messages.Error
	switch {
	case err == nil:
	case errors.As(err, &e) && e.Code == messages.CodeHeld && c.goTo(e.Owner):
	case c.r.Float64() < 0.4:
		c.home = c.r.IntN(len(c.w.nodes))
	}
	return err
}

// goTo makes an owner's node the next one to ask.
func (c *client) goTo(owner string) bool {
	for i, n := range c.w.nodes {
		if n.name == messages.OwnerNode(owner) {
			c.home = i
			return true
		}
	}
	return false
}

// judge writes down an error that no client must ever get.
func (w *world) judge(key messages.Key, what string, l *life, err error) {
	if err == nil || l.dead() {
		return
	}
	w.count(func(s *Stats) { s.Errors[messages.CodeOf(err)]++ })
	var e *messages.Error
	switch {
	case !errors.As(err, &e):
		w.fail("D13", key, "%s at %s: an untyped error: %v", what, l.owner, err)
	case e.Code == messages.CodeInternal, e.Code == messages.CodeStorage, e.Code == messages.CodeSQL, e.Code == messages.CodePanic,
		e.Code == messages.CodeInvalidID, e.Code == messages.CodeInvalidArgument, e.Code == messages.CodeOutOfRange:
		w.fail("D13", key, "%s at %s: an error that nothing justifies: %v", what, l.owner, err)
	}
}

// append appends one event without an idempotency key, once.
func (c *client) append(ctx context.Context) {
	id := c.id()
	c.attempt(ctx, history.Write{Key: c.key, ID: id}, c.timeout())
}

// appendOnce appends one event with an idempotency key, and tries again until it is acknowledged.
func (c *client) appendOnce(ctx context.Context) {
	id := c.id()
	for attempt := range 8 {
		w := history.Write{Key: c.key, ID: id, IdemKey: "key-" + id, Attempt: attempt}
		if c.attempt(ctx, w, c.timeout()) == history.Acked || !rest(ctx, between(c.r, 100*time.Millisecond, 4*time.Second)) {
			// A retry after the acknowledgement must find the first one.
			if c.r.Float64() < 0.2 && ctx.Err() == nil {
				w.Attempt += 100
				c.attempt(ctx, w, c.timeout())
			}
			return
		}
	}
}

func (c *client) id() string {
	c.n++
	return fmt.Sprintf("%s-%d", c.name, c.n)
}

// timeout is a deadline; now and then one that is hard to meet.
func (c *client) timeout() time.Duration {
	if c.r.Float64() < 0.1 {
		return between(c.r, time.Millisecond, 200*time.Millisecond)
	}
	return between(c.r, 2*time.Second, 9*time.Second)
}

func (c *client) event(id, idemKey string) messages.Event {
	return messages.Event{Kind: "sim.write", SubjectID: id, IdemKey: idemKey, Payload: json.RawMessage(`{"by":"a client"}`)}
}

// attempt makes one request to append and writes down what comes of it.
func (c *client) attempt(ctx context.Context, write history.Write, timeout time.Duration) history.Outcome {
	i := -1
	var done messages.Appended
	err := c.use(ctx, timeout, "append", func(ctx context.Context, t *actors.Tenant, l *life) (err error) {
		write.Owner = l.owner
		i = c.w.intend(write)
		done, err = t.Append(ctx, c.event(write.ID, write.IdemKey))
		return c.w.answer(i, l, done, err)
	})
	if err == nil {
		c.seen = max(c.seen, done.Seq)
	}
	if i < 0 {
		return history.Refused // it was never sent
	}
	return history.OutcomeOf(err)
}

// intend writes a request down before it is sent.
func (w *world) intend(write history.Write) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	write.Sent = time.Now()
	w.history.Writes = append(w.history.Writes, write)
	return len(w.history.Writes) - 1
}

// answer writes its answer down. What a killed process still says, nobody hears.
func (w *world) answer(i int, l *life, done messages.Appended, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	write := &w.history.Writes[i]
	write.Answered, write.Outcome, write.Code = time.Now(), history.OutcomeOf(err), messages.CodeOf(err)
	if write.Outcome == history.Unknown {
		write.Cause = messages.AsError(err).Cause
	}
	if l.dead() {
		write.Outcome = history.Unknown
	}
	switch write.Outcome {
	case history.Acked:
		write.Seq, write.Duplicate = done.Seq, done.Duplicate
		w.stats.Acked++
	case history.Refused:
		w.stats.Refused++
	default:
		w.stats.Unknown++
	}
	w.logLocked("%s append %s#%d: %s %s seq %d", l.owner, write.ID, write.Attempt, write.Outcome, write.Code, write.Seq)
	return err
}

// read reads the newest events, or all of them.
func (c *client) read(ctx context.Context) {
	after := max(0, c.seen-int64(c.r.IntN(30)))
	if c.r.Float64() < 0.1 {
		after = 0
	}
	_ = c.use(ctx, c.timeout(), "events", func(ctx context.Context, t *actors.Tenant, l *life) error {
		sent := time.Now()
		events, more, err := t.Events(ctx, after, 2000)
		if err == nil && !l.dead() {
			c.w.mu.Lock()
			defer c.w.mu.Unlock()
			c.w.stats.Reads++
			c.w.history.Reads = append(c.w.history.Reads, history.Read{Key: c.key, Owner: l.owner, Sent: sent, Answered: time.Now(),
				After: after, Rows: history.Rows(c.key.Tenant, events), More: more})
		}
		return err
	})
	if c.r.Float64() < 0.1 {
		c.seen = 0 // the tenant may have been forgotten
	}
}

// count runs a query.
func (c *client) count(ctx context.Context) {
	_ = c.use(ctx, c.timeout(), "query", func(ctx context.Context, t *actors.Tenant, _ *life) error {
		_, err := t.Query(ctx, "SELECT count(*), count(DISTINCT subject_id) FROM events")
		return err
	})
}

// order gives an order to the node that holds the tenant, and writes it down.
func (c *client) order(ctx context.Context, name string) {
	_ = c.use(ctx, 20*time.Second, name, func(ctx context.Context, t *actors.Tenant, l *life) error {
		o := history.Order{Key: c.key, Name: name, Owner: l.owner, Sent: time.Now()}
		var err error
		switch name {
		case history.OrderSnapshot:
			o.Manifest, err = t.Snapshot(ctx)
		case history.OrderHandoff:
			err = t.Handoff(ctx)
		case history.OrderAbandon:
			err = t.Abandon(ctx)
		case history.OrderForget:
			err = t.Forget(ctx)
		}
		o.Answered, o.Code = time.Now(), messages.CodeOf(err)
		if l.dead() {
			o.Answered = time.Time{}
		}
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.w.history.Orders = append(c.w.history.Orders, o)
		c.w.logLocked("%s %s of %s: %s", l.owner, name, shortKey(c.key), strings.TrimSpace("done "+string(o.Code)))
		return err
	})
}
