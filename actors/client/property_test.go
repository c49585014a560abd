package client_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

// Whatever members answer, in whatever order: a request is never sent again after an attempt that may have been
// carried out, unless it may be repeated; what a success says happened; a failure that says that nothing was done
// is true; and there is an answer at the deadline at the latest.
func TestDo_NothingIsDoneTwice(t *testing.T) {
	codes := []messages.Code{messages.CodeNotOwner, messages.CodeDraining, messages.CodeHeld, messages.CodeOverloaded, messages.CodeFenced, messages.CodeClosed,
		messages.CodeUnavailable, messages.CodeUnknownOutcome, messages.CodeHistoryLost, messages.CodeSQL, messages.CodeDeadlineExceeded, messages.CodeCanceled,
		messages.CodeTooLarge, messages.CodeInternal}
	// What a tenant that is being closed may say in the middle of it.
	midway := []messages.Code{messages.CodeFenced, messages.CodeClosed, messages.CodeUnavailable, messages.CodeDeadlineExceeded, messages.CodeCanceled}
	requests := []messages.Request{once, risky, read, save, hand, purge}
	synctest.Test(t, func(t *testing.T) {
		// Without Deadline, which a test in a bubble does not have.
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			req := rapid.SampledFrom(requests).Draw(t, "request")
			seen := messages.Seen{Epoch: rapid.Uint64Range(0, 3).Draw(t, "seen")}
			req.Seen = seen
			repeatable, reads := req.Repeatable(), req.Action == messages.ActionQuery
			closing := req.Action == messages.ActionHandoff || req.Action == messages.ActionForget
			attempts, doubtful, after := 0, false, 0
			s := play()
			one := func(ctx context.Context, req *messages.Request) (*messages.Reply, error) {
				named := rapid.SampledFrom([]string{"", nodeA, nodeB})
				if s.sent[len(s.sent)-1].target == "" { // any member: nothing is carried out, and the script sees to it that nothing could be
					switch rapid.IntRange(0, 7).Draw(t, "any") {
					case 0:
						return undelivered(ctx, req)
					case 1:
						return broken(ctx, req)
					case 2:
						return silence(ctx, req)
					case 3:
						return no(nodeC, messages.Error{Code: rapid.SampledFrom(codes).Draw(t, "code"), Owner: named.Draw(t, "owner")})(ctx, req)
					case 4:
						return with(rapid.SampledFrom([]*messages.Reply{nil, {}, {Epoch: 4, Seq: 5, Appended: make([]messages.Appended, 2), Result: &messages.Result{}}}).Draw(t, "none"))(ctx, req)
					}
					return is(named.Draw(t, "named"))(ctx, req)
				}
				if attempts++; doubtful {
					after++
				}
				target := rapid.SampledFrom([]string{nodeA, nodeB, nodeC}).Draw(t, "node")
				switch rapid.IntRange(0, 6).Draw(t, "kind") {
				case 0:
					return undelivered(ctx, req)
				case 1:
					doubtful = true
					return broken(ctx, req)
				case 2:
					doubtful = true
					return silence(ctx, req)
				case 3:
					epoch := rapid.Uint64Range(0, 4).Draw(t, "epoch")
					// What comes from an older state, or from nowhere, may have been done.
					doubtful = doubtful || epoch < max(seen.Epoch, 1)
					return ok(target, epoch, 5)(ctx, req)
				}
				code := rapid.SampledFrom(codes).Draw(t, "code")
				doubtful = doubtful || code == messages.CodeUnknownOutcome || (closing && slices.Contains(midway, code))
				e := messages.Error{Code: code, Owner: named.Draw(t, "owner"),
					RetryAfter: time.Duration(rapid.Int64Range(-10, 3000).Draw(t, "after")) * ms}
				return no(target, e)(ctx, req)
			}
			s.steps = []step{one}
			c, err := client.New(s, client.Config{HedgeAfter: -1}) // one attempt after the other; with hedges: TestHedge_WhateverMembersAnswer
			if err != nil {
				t.Fatal(err)
			}
			limit := time.Duration(rapid.Int64Range(1, 20000).Draw(t, "limit")) * ms
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			begun := time.Now()
			reply := c.Do(ctx, &req)
			switch {
			case time.Since(begun) > limit:
				t.Fatalf("answered after %v, the deadline was %v", time.Since(begun), limit)
			case reply == nil:
				t.Fatal("no reply")
			case !repeatable && after > 0:
				t.Fatalf("sent again after an attempt that may have been carried out: %d attempts", attempts)
			case reply.Error == nil && attempts == 0:
				t.Fatal("a success, and no owner was asked")
			case reply.Error != nil && reply.Error.Code == messages.CodeUnknownOutcome && !doubtful:
				t.Fatalf("%v, and nothing was in doubt", reply.Error)
			case reply.Error == nil && !closing && reply.Epoch < seen.Epoch:
				t.Fatalf("answered from epoch %d, seen was %d", reply.Epoch, seen.Epoch)
			case reply.Error != nil && doubtful && !reads &&
				(reply.Error.Code == messages.CodeDeadlineExceeded || reply.Error.Code == messages.CodeCanceled):
				t.Fatalf("%v says that nothing was done", reply.Error)
			}
		})
	})
}
