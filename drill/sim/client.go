package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	memo memory
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
		case what < 0.3:
			c.append(ctx)
		case what < 0.5:
			c.appendOnce(ctx)
		case what < 0.6:
			c.appendTogether(ctx)
		case what < 0.7:
			c.transact(ctx)
		case what < 0.79:
			c.call(ctx)
		case what < 0.84:
			c.crowd(ctx, nil)
		case what < 0.95:
			c.read(ctx)
		default:
			c.audit(ctx)
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
func (c *client) use(ctx context.Context, timeout time.Duration, what string, do func(context.Context, *actors.Tenant, *life) error, justified ...messages.Code) error {
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
	c.w.judge(c.key, what, l, err, justified...)
	c.follow(err)
	return err
}

// follow goes where an answer sends it, or perhaps elsewhere.
func (c *client) follow(err error) {
	var e *messages.Error
	switch {
	case err == nil:
	case errors.As(err, &e) && e.Code == messages.CodeHeld && c.goTo(e.Owner):
	case c.r.Float64() < 0.4:
		c.home = c.r.IntN(len(c.w.nodes))
	}
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

// judge writes down an error that no client must ever get, unless it asked for it.
func (w *world) judge(key messages.Key, what string, l *life, err error, asked ...messages.Code) {
	if err == nil || l.dead() {
		return
	}
	w.count(func(s *Stats) { s.Errors[messages.CodeOf(err)]++ })
	var e *messages.Error
	switch {
	case slices.Contains(asked, messages.CodeOf(err)):
	case !errors.As(err, &e):
		w.fail("D13", key, "%s at %s: an untyped error: %v", what, l.owner, err)
	case e.Code == messages.CodeInternal, e.Code == messages.CodeStorage, e.Code == messages.CodeSQL, e.Code == messages.CodePanic,
		e.Code == messages.CodeInvalidID, e.Code == messages.CodeInvalidArgument, e.Code == messages.CodeOutOfRange,
		e.Code == messages.CodeIdempotencyConflict, e.Code == messages.CodeCommandFailed, e.Code == messages.CodeNotFound, e.Code == messages.CodeTooLarge:
		w.fail("D13", key, "%s at %s: an error that nothing justifies: %v", what, l.owner, err)
	}
}

// read reads the newest events, or all of them, and half of the time asks whether the application's tables agree with them.
func (c *client) read(ctx context.Context) {
	seen, _, _ := c.memo.now()
	after := max(0, seen.Seq-int64(c.r.IntN(30)))
	if c.r.Float64() < 0.1 {
		after = 0
	}
	sent := time.Now()
	reply, l := c.ask(ctx, c.timeout(), messages.Request{Action: messages.ActionEvents, After: after, Limit: 2000}, nil)
	if reply == nil || reply.Error != nil || l.dead() {
		return
	}
	c.w.mu.Lock()
	c.w.stats.Reads++
	c.w.history.Reads = append(c.w.history.Reads, history.Read{Key: c.key, Owner: l.owner, Epoch: reply.Epoch, Sent: sent, Answered: time.Now(),
		After: after, Rows: history.Rows(c.key.Tenant, reply.Events), More: reply.More})
	c.w.mu.Unlock()
	if c.r.Float64() < 0.5 {
		c.audit(ctx)
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

// order gives an order to the node that holds the tenant, and writes it down.
func (c *client) order(ctx context.Context, name string) {
	timeout := 20 * time.Second
	if name == history.OrderForget {
		timeout = patience // it may delete for long
	}
	_ = c.use(ctx, timeout, name, func(ctx context.Context, t *actors.Tenant, l *life) error {
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
