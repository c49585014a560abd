package client_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

// A request that got lost is sent again to the same owner, long before it is given up.
func TestHedge_ALostRequest(t *testing.T) {
	for name, req := range map[string]messages.Request{"append": once, "query": read} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := enact(map[string][]step{"": {is(nodeA)}, nodeA: {silence, ok(nodeA, 1, 7)}})
				c := hedging(t, s)
				reply := c.Do(t.Context(), &req)
				require.Nil(t, reply.Error)
				require.EqualValues(t, 7, reply.Seq)
				require.Equal(t, hedgeAfter, time.Since(s.begun))
				require.Equal(t, []string{nodeA, "", nodeA}, s.targets())
				require.Equal(t, hedgeAfter, s.sent[0].until, "the first attempt is ended")
				require.Empty(t, s.sent[1].req.Avoid, "nobody has given up on the owner")
				require.Equal(t, s.sent[0].req.Events, s.sent[2].req.Events)
				require.Equal(t, client.Stats{Requests: 2, Hedges: 1, Resent: 1, Won: 1}, c.Stats())
			})
		})
	}
}

// A client that has not heard that the tenant has moved away from an owner that stands still.
func TestHedge_AMoveThatTheClientHasNotHeardOf(t *testing.T) {
	for name, tc := range map[string]struct {
		any, b []step
		took   time.Duration
		asked  []string
	}{
		"a member knows":               {any: []step{is(nodeB)}, b: []step{ok(nodeB, 2, 7)}, took: 100 * ms, asked: []string{nodeA, "", nodeB}},
		"a member refuses, and knows":  {any: []step{no(nodeC, messages.Error{Code: messages.CodeDraining, Owner: nodeB})}, b: []step{ok(nodeB, 2, 7)}, took: 100 * ms, asked: []string{nodeA, "", nodeB}},
		"the first question gets lost": {any: []step{silence, is(nodeB)}, b: []step{ok(nodeB, 2, 7)}, took: 350 * ms, asked: []string{nodeA, "", "", nodeB}},
		"the first one is not taken":   {any: []step{undelivered, is(nodeB)}, b: []step{ok(nodeB, 2, 7)}, took: 350 * ms, asked: []string{nodeA, "", "", nodeB}},
		"a member knows nobody":        {any: []step{no(nodeC, messages.Error{Code: messages.CodeUnavailable}), with(&messages.Reply{}), is(nodeB)}, b: []step{ok(nodeB, 2, 7)}, took: 600 * ms, asked: []string{nodeA, "", "", "", nodeB}},
		"it has moved on":              {any: []step{is(nodeC)}, b: []step{ok(nodeB, 3, 7)}, took: 100 * ms, asked: []string{nodeA, "", nodeC, nodeB}},
		"the new owner needs time":     {any: []step{is(nodeB)}, b: []step{after(900*ms, ok(nodeB, 2, 7))}, took: 1000 * ms, asked: []string{nodeA, "", nodeB}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := enact(map[string][]step{"": tc.any, nodeA: {silence}, nodeB: tc.b, nodeC: {no(nodeC, messages.Error{Code: messages.CodeNotOwner, Owner: nodeB})}})
				c := hedging(t, s)
				reply := c.Do(t.Context(), &once)
				require.Nil(t, reply.Error)
				require.Equal(t, nodeB, reply.Owner)
				require.Equal(t, tc.took, time.Since(s.begun))
				require.Equal(t, tc.asked, s.targets())
				require.Equal(t, nodeB, c.Owner(tenantKey), "it is remembered")
			})
		})
	}
}

// What must not be repeated is not sent a second time while the first one may be carried out, and nobody is asked where
// it could be sent. A snapshot, or a large request, is worth no second one.
func TestHedge_NotWhatMustNotBeRepeated(t *testing.T) {
	large := json.RawMessage(`"` + strings.Repeat("x", 40<<10) + `"`)
	for name, req := range map[string]messages.Request{"append": risky, "handoff": hand, "forget": purge, "snapshot": save,
		"command":        {Action: messages.ActionCall, Key: tenantKey, Command: "book"},
		"a large append": {Action: messages.ActionAppend, Key: tenantKey, Events: []messages.Event{{Kind: "k", IdemKey: "1", Payload: large}, {Kind: "k", IdemKey: "2", Payload: large}}},
		"a large query":  {Action: messages.ActionQuery, Key: tenantKey, SQL: "SELECT ?, ?", Args: []json.RawMessage{large, large}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := enact(map[string][]step{"": {is(nodeB)}, nodeA: {after(1900*ms, ok(nodeA, 1, 7))}, nodeB: {ok(nodeB, 2, 8)}})
				c := hedging(t, s)
				require.Nil(t, c.Do(t.Context(), &req).Error)
				require.Equal(t, []string{nodeA}, s.targets())
				require.Zero(t, c.Stats().Hedges)
			})
		})
	}
}

// The first success is the answer, and the other way is ended.
func TestHedge_TheFirstAttemptMayStillWin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := enact(map[string][]step{"": {is(nodeB)}, nodeA: {after(150*ms, ok(nodeA, 1, 7))}, nodeB: {silence}})
		c := hedging(t, s)
		require.Equal(t, nodeA, c.Do(t.Context(), &once).Owner)
		require.Equal(t, 150*ms, time.Since(s.begun))
		require.Equal(t, []string{nodeA, "", nodeB}, s.targets())
		require.Equal(t, 150*ms, s.sent[2].until)
		require.Zero(t, c.Stats().Won)
	})
	t.Run("during the question", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := enact(map[string][]step{"": {silence}, nodeA: {after(150*ms, ok(nodeA, 1, 7))}})
			require.Equal(t, nodeA, hedging(t, s).Do(t.Context(), &once).Owner)
			require.Equal(t, 150*ms, time.Since(s.begun))
			require.Equal(t, 150*ms, s.sent[1].until)
		})
	})
}

// What a hedge brings from an older state than the caller has seen, or what is no answer at all, does not count.
func TestHedge_NeverGoesBackwards(t *testing.T) {
	for name, answer := range map[string]step{
		"an older epoch": ok(nodeB, 1, 99), "an older seq": ok(nodeB, 2, 4), "no reply": with(nil), "another number of events": with(&messages.Reply{Owner: nodeB, Epoch: 3, Seq: 9}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := enact(map[string][]step{"": {is(nodeB)}, nodeA: {after(300*ms, ok(nodeA, 2, 6))}, nodeB: {answer}})
				c := hedging(t, s)
				req := once
				req.Seen = messages.Seen{Epoch: 2, Seq: 5}
				reply := c.Do(t.Context(), &req)
				require.Nil(t, reply.Error)
				require.Equal(t, messages.Seen{Epoch: 2, Seq: 6}, reply.Seen())
				require.Equal(t, 300*ms, time.Since(s.begun))
				require.Equal(t, req.Seen, s.sent[2].req.Seen, "the second owner is told what the caller has seen")
				require.Zero(t, c.Stats().Won)
			})
		})
	}
}

// A refusal on the second way is no answer: the first one may still succeed.
func TestHedge_ARefusalDoesNotWin(t *testing.T) {
	for _, code := range []messages.Code{messages.CodeHeld, messages.CodeOverloaded, messages.CodeHistoryLost, messages.CodeCommandFailed, messages.CodeUnknownOutcome, messages.CodeNotOwner} {
		synctest.Test(t, func(t *testing.T) {
			s := enact(map[string][]step{"": {is(nodeB)}, nodeA: {after(400*ms, ok(nodeA, 1, 7))}, nodeB: {no(nodeB, messages.Error{Code: code, Owner: nodeA})}})
			require.Equal(t, nodeA, hedging(t, s).Do(t.Context(), &once).Owner)
			require.Equal(t, []string{nodeA, "", nodeB}, s.targets(), "and it does not lead back to where the first one is")
		})
	}
}

// A refusal of the first attempt is not the whole truth while the second one is under way.
func TestHedge_ARefusalIsNotFinalWhileTheSecondIsUnderWay(t *testing.T) {
	failed := no(nodeA, messages.Error{Code: messages.CodeCommandFailed})
	run := messages.Request{Action: messages.ActionCall, Key: tenantKey, Command: "book", IdemKey: "1"}
	synctest.Test(t, func(t *testing.T) {
		s := enact(map[string][]step{"": {is(nodeA)}, nodeA: {after(150*ms, failed), after(150*ms, ok(nodeA, 1, 7))}})
		reply := hedging(t, s).Do(t.Context(), &run)
		require.Nil(t, reply.Error)
		require.Equal(t, 250*ms, time.Since(s.begun))
	})
	t.Run("both refuse", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := enact(map[string][]step{"": {is(nodeA)}, nodeA: {after(150*ms, failed)}})
			require.Equal(t, messages.CodeCommandFailed, hedging(t, s).Do(t.Context(), &run).Error.Code)
			require.Equal(t, []string{nodeA, "", nodeA}, s.targets())
		})
	})
	t.Run("the second is never answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := enact(map[string][]step{"": {is(nodeA)}, nodeA: {after(150*ms, failed), silence, ok(nodeA, 1, 7)}})
			require.Nil(t, hedging(t, s).Do(t.Context(), &run).Error, "the key settles it")
			require.Equal(t, []string{nodeA, "", nodeA, nodeA}, s.targets())
			require.GreaterOrEqual(t, s.sent[3].at, 2*time.Second, "the second one is not begun any more by then")
		})
	})
}

// What the second way may have done is part of what is told at the deadline.
func TestHedge_LeavesADoubt(t *testing.T) {
	draining := no(nodeA, messages.Error{Code: messages.CodeDraining})
	for name, tc := range map[string]struct {
		b    []step
		code messages.Code
	}{
		"it was sent, and ended":     {[]step{silence, undelivered}, messages.CodeUnknownOutcome},
		"it was cut off":             {[]step{broken, undelivered}, messages.CodeUnknownOutcome},
		"it went backwards":          {[]step{ok(nodeB, 0, 1), undelivered}, messages.CodeUnknownOutcome},
		"it was refused":             {[]step{no(nodeB, messages.Error{Code: messages.CodeHeld}), undelivered}, messages.CodeDeadlineExceeded},
		"it was not delivered":       {[]step{undelivered}, messages.CodeDeadlineExceeded},
		"its outcome is not certain": {[]step{no(nodeB, messages.Error{Code: messages.CodeUnknownOutcome}), undelivered}, messages.CodeUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := enact(map[string][]step{"": {is(nodeB), undelivered}, nodeA: {after(200*ms, draining), undelivered}, nodeB: tc.b})
				require.Equal(t, tc.code, hedging(t, s).Do(t.Context(), &once).Error.Code)
				require.Equal(t, 30*time.Second, time.Since(s.begun))
				require.Equal(t, []string{nodeA, "", nodeB}, s.targets()[:3])
			})
		})
	}
}

// A success that comes while its hedge is being ended counts: else the caller would be told that nothing was done.
func TestHedge_AnAnswerInTheLastMoment(t *testing.T) {
	last := func(then step) step {
		return func(ctx context.Context, req *messages.Request) (*messages.Reply, error) {
			<-ctx.Done()
			return then(ctx, req)
		}
	}
	for name, refusal := range map[string]messages.Code{"it would be tried again": messages.CodeDraining, "it would be final": messages.CodeCommandFailed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := enact(map[string][]step{"": {is(nodeB), undelivered}, nodeA: {after(200*ms, no(nodeA, messages.Error{Code: refusal})), undelivered}, nodeB: {last(ok(nodeB, 2, 7)), undelivered}})
				require.Equal(t, nodeB, hedging(t, s).Do(t.Context(), &once).Owner)
				require.Equal(t, []string{nodeA, "", nodeB}, s.targets())
			})
		})
	}
}

// The question whom to send a request to may get lost as well; nothing is carried out for it, whatever the request is.
func TestHedge_AQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := enact(map[string][]step{"": {silence, silence, is(nodeB)}, nodeB: {ok(nodeB, 1, 7)}})
		c := newClient(t, s, client.Config{HedgeAfter: hedgeAfter})
		require.Nil(t, c.Do(t.Context(), &risky).Error)
		require.Equal(t, 350*ms, time.Since(s.begun))
		require.Equal(t, []string{"", "", "", nodeB}, s.targets())
		require.Equal(t, 2, s.most[""])
	})
}

// One request has one hedge at a time.
func TestHedge_OneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := enact(map[string][]step{"": {silence}, nodeA: {silence}})
		c := hedging(t, s)
		require.Error(t, c.Do(t.Context(), &once).Error)
		require.Equal(t, 2, s.most[""], "a question, and its hedge")
		require.Equal(t, 1, s.most[nodeA])
	})
	t.Run("and its answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := enact(map[string][]step{"": {is(nodeA)}, nodeA: {silence}})
			require.Error(t, hedging(t, s).Do(t.Context(), &once).Error)
			require.Equal(t, 2, s.most[nodeA])
			require.Equal(t, 1, s.most[""])
		})
	})
}

// A hedge keeps to the deadlines of the attempt and of the caller.
func TestHedge_KeepsToTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := enact(map[string][]step{"": {is(nodeB)}, nodeA: {silence}, nodeB: {silence}})
		c := hedging(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 130*ms)
		defer cancel()
		require.ErrorIs(t, c.Do(ctx, &once).Error, messages.ErrUnknownOutcome)
		require.Equal(t, 130*ms, time.Since(s.begun))
		require.Equal(t, []string{nodeA, "", nodeB}, s.targets())
		for _, one := range s.sent[1:] {
			require.LessOrEqual(t, one.left, 30*ms)
			require.LessOrEqual(t, one.req.TimeoutMS, int64(30))
			require.LessOrEqual(t, one.until, 130*ms)
		}
	})
	t.Run("a client that is closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := enact(map[string][]step{"": {is(nodeB)}, nodeA: {silence}, nodeB: {silence}})
			c := hedging(t, s)
			time.AfterFunc(150*ms, func() { _ = c.Close() })
			require.ErrorIs(t, c.Do(t.Context(), &once).Error, messages.ErrClosed)
			require.Equal(t, 150*ms, time.Since(s.begun))
			require.Equal(t, 150*ms, s.sent[2].until)
		})
	})
}

// sure is a stage that is said to lose nothing.
type sure struct{ *stage }

func (sure) Sure(target string) bool { return target == nodeA }

func TestHedge_Off(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := enact(map[string][]step{"": {is(nodeA)}, nodeA: {after(1900*ms, ok(nodeA, 1, 7))}})
		require.Nil(t, newClient(t, s, client.Config{HedgeAfter: -1}).Do(t.Context(), &once).Error)
		require.Equal(t, []string{"", nodeA}, s.targets(), "it is off")
		s.sent = nil
		require.Nil(t, newClient(t, sure{s}, client.Config{HedgeAfter: hedgeAfter}).Do(t.Context(), &once).Error)
		require.Equal(t, []string{"", nodeA}, s.targets(), "nothing gets lost inside a process")
		s.sent = nil
		c, err := client.New(s, client.Config{})
		require.NoError(t, err)
		require.Nil(t, c.Do(t.Context(), &once).Error)
		require.Equal(t, []string{"", nodeA, "", nodeA}, s.targets(), "it is on by default")
		require.Equal(t, hedgeAfter, s.sent[2].at-s.sent[1].at)
	})
}
