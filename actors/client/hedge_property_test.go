package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

// plan is what becomes of one message.
type plan struct {
	Kind  int
	Takes time.Duration
	Node  string
	Epoch uint64
	Code  messages.Code
}

func plans(t *rapid.T, name string) []plan {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plan {
		return plan{Kind: rapid.IntRange(0, 6).Draw(t, "kind"), Takes: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 50, 150, 400, 3000}).Draw(t, "takes")) * ms,
			Node: rapid.SampledFrom([]string{"", nodeA, nodeB, nodeC}).Draw(t, "node"), Epoch: rapid.Uint64Range(0, 4).Draw(t, "epoch"),
			Code: rapid.SampledFrom([]messages.Code{messages.CodeNotOwner, messages.CodeDraining, messages.CodeHeld, messages.CodeUnavailable, messages.CodeUnknownOutcome,
				messages.CodeFenced, messages.CodeOverloaded, messages.CodeCommandFailed, messages.CodeHistoryLost}).Draw(t, "code")}
	}), 1, 12).Draw(t, name)
}

// plays carries out plans, and counts what the rules are about.
type plays struct {
	mu               sync.Mutex
	any, owners      []plan
	under, most      int // messages under way
	sent, underOwner int
	mostOwner        int
	doubtful, done   bool
	seen             messages.Seen
}

func (p *plays) Send(ctx context.Context, target string, req *messages.Request) (*messages.Reply, error) {
	p.mu.Lock()
	from := &p.owners
	if target == "" {
		from = &p.any
		onlyLocates(req)
	} else {
		p.sent++
		p.underOwner++
		p.mostOwner = max(p.mostOwner, p.underOwner)
	}
	p.under++
	p.most = max(p.most, p.under)
	one := (*from)[0]
	if len(*from) > 1 {
		*from = (*from)[1:]
	}
	p.mu.Unlock()
	reply, err := after(one.Takes, one.step(target))(ctx, req)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under--
	if target != "" {
		p.underOwner--
		undone := errors.Is(err, client.ErrNotDelivered) || err == nil && reply != nil && reply.Error != nil && reply.Error.Code != messages.CodeUnknownOutcome
		fresh := err == nil && reply != nil && reply.Error == nil && !reply.Seen().Before(p.seen) && reply.Epoch > 0
		p.doubtful = p.doubtful || !undone && !fresh
		p.done = p.done || fresh
	}
	return reply, err
}

func (p plan) step(target string) step {
	switch {
	case p.Kind == 0:
		return undelivered
	case p.Kind == 1:
		return broken
	case p.Kind == 2:
		return silence
	case p.Kind == 3:
		return no(nodeC, messages.Error{Code: p.Code, Owner: p.Node})
	case target == "":
		return is(p.Node)
	}
	return ok(target, p.Epoch, 5)
}

// Whatever members answer, however late: with hedges, too, what must not be repeated is never sent while it may be, or
// may have been, carried out; no answer goes backwards; one request has one hedge at a time; nothing goes on after the
// answer; and a failure that says that nothing was done is true.
func TestHedge_WhateverMembersAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			req := rapid.SampledFrom([]messages.Request{once, once, read, risky, hand}).Draw(t, "request")
			req.Seen = messages.Seen{Epoch: rapid.Uint64Range(0, 3).Draw(t, "seen")}
			p := &plays{any: plans(t, "any"), owners: plans(t, "owners"), seen: req.Seen}
			c, err := client.New(p, client.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			limit := time.Duration(rapid.Int64Range(1, 8000).Draw(t, "limit")) * ms
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			begun := time.Now()
			reply := c.Do(ctx, &req)
			p.mu.Lock()
			defer p.mu.Unlock()
			closing, reads := req.Action == messages.ActionHandoff, req.Action == messages.ActionQuery
			switch {
			case time.Since(begun) > limit:
				t.Fatalf("answered after %v, the deadline was %v", time.Since(begun), limit)
			case p.under != 0:
				t.Fatalf("%d messages are under way after the answer", p.under)
			case p.most > 2:
				t.Fatalf("%d messages at once", p.most)
			case !req.Repeatable() && p.mostOwner > 1:
				t.Fatal("sent twice at once")
			case reply.Error == nil && !closing && (reply.Epoch < max(1, req.Seen.Epoch)):
				t.Fatalf("answered from epoch %d, seen was %d", reply.Epoch, req.Seen.Epoch)
			case reply.Error != nil && (p.doubtful || p.done) && !reads &&
				(reply.Error.Code == messages.CodeDeadlineExceeded || reply.Error.Code == messages.CodeCanceled):
				t.Fatalf("%v says that nothing was done", reply.Error)
			}
		})
	})
}
