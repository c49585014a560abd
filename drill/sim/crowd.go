package sim

import (
	"context"
	"sync"
	"time"

	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/messages"
)

// crowd lets several requests wait behind one transaction, so that they share a commit: an append, one that is refused in the
// middle of it, payments that end well and others that fail. then, if set, comes last.
func (c *client) crowd(ctx context.Context, then func(context.Context)) {
	ready := messages.Request{Action: messages.ActionEvents, Limit: 1} // the node serves the tenant
	if then != nil {
		ready = messages.Request{Action: messages.ActionSnapshot} // and nothing but the crowd is to be saved
	}
	if reply, _ := c.ask(ctx, 20*time.Second, ready, nil); reply == nil || reply.Error != nil {
		return
	}
	l := c.pick()
	if l == nil {
		return
	}
	first := c.transaction()
	first.pause = between(c.r, 100*time.Millisecond, time.Second)
	if then != nil {
		first.ends = endsWell
	}
	one, some := []messages.Event{event(c.id(), "")}, c.together()
	payments := make([]payment, 2)
	for i := range payments {
		payments[i] = payment{ID: c.id(), Amount: c.r.Int64N(100)}
		payments[i].Ends, _ = c.wayOut()
	}
	if payments[1].Ends == endsWell && then == nil {
		payments[1].Ends = endsError
	}
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second)
	defer cancel()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		tenant, err := l.node.Tenant(ctx, c.key.Org, c.key.Tenant)
		if err == nil {
			err = c.runAt(ctx, tenant, l, first)
		}
		c.w.judge(c.key, "run", l, err, messages.CodeCommandFailed, messages.CodePanic)
	})
	if rest(ctx, 20*time.Millisecond) {
		for _, events := range [][]messages.Event{one, some} {
			waiting.Go(func() {
				writes := c.intendAppend(l, events, 0)
				c.answerAppend(writes, l, c.send(ctx, l, messages.Request{Action: messages.ActionAppend, Events: events}, messages.CodeIdempotencyConflict))
			})
		}
		for _, p := range payments {
			waiting.Go(func() {
				at := c.w.intend(history.Write{Key: c.key, ID: p.ID, Owner: l.owner})
				c.answerPay(at, l, p, c.send(ctx, l, payRequest(p, ""), messages.CodeCommandFailed, messages.CodePanic))
			})
		}
	}
	if then != nil && rest(ctx, 20*time.Millisecond) {
		then(ctx)
	}
	waiting.Wait()
}

// handOffBehind hands a tenant off while writes wait.
func (c *client) handOffBehind(ctx context.Context) {
	ordered := false
	c.crowd(ctx, func(ctx context.Context) { ordered = true; c.order(ctx, history.OrderHandoff) })
	if !ordered {
		c.order(ctx, history.OrderHandoff)
	}
}
