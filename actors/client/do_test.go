package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

const ms = time.Millisecond

// span is what a wait must be: from, to (both in it). The zero value is "at once".
type span struct{ from, to time.Duration }

// back is the n-th backoff of a request.
func back(n int) span {
	d := min(10*ms<<min(n, 10), 500*ms)
	return span{d / 2, d + 1}
}

// about is a wait that a reply asked for.
func about(d time.Duration) span { return span{d, d + d/10} }

func lease(owner string, epoch uint64, end time.Duration) *messages.Lease {
	return &messages.Lease{Key: tenantKey, Owner: owner, Epoch: epoch, End: time.Unix(0, 0).Add(end)}
}

func TestDo_WhatFollowsFromAnAnswer(t *testing.T) {
	var (
		notOwner = func(by, is string) step { return no(by, messages.Error{Code: messages.CodeNotOwner, Owner: is}) }
		refuse   = func(by string, c messages.Code) step { return no(by, messages.Error{Code: c}) }
		unknown  = func(by string, cause messages.Code) step {
			return no(by, messages.Error{Code: messages.CodeUnknownOutcome, Cause: cause})
		}
		held = func(by string, after time.Duration) step {
			return no(by, messages.Error{Code: messages.CodeHeld, Owner: nodeA, RetryAfter: after, Lease: lease(nodeA, 1, time.Second)})
		}
		done = ok(nodeB, 2, 7)
	)
	type table struct {
		request messages.Request
		cached  string
		steps   []step
		targets []string
		waits   []span
		code    messages.Code // of the reply; "": a success
		cause   messages.Code
		owner   string // remembered afterwards
	}
	tables := make(map[string]table)
	for name, tc := range map[string]table{
		"whom any member names is remembered": {request: risky, steps: []step{is(nodeB), done}, targets: []string{"", nodeB}, waits: []span{{}}, owner: nodeB},
		"a remembered owner is asked":         {request: risky, cached: nodeB, steps: []step{done}, targets: []string{nodeB}, owner: nodeB},

		"not delivered: any member at once": {request: risky, cached: nodeA, steps: []step{undelivered, done},
			targets: []string{nodeA, "", nodeB}, waits: []span{{}, {}}, owner: nodeB},
		"not delivered again and again": {request: risky, cached: nodeA, steps: []step{undelivered, undelivered, undelivered, undelivered, done},
			targets: []string{nodeA, "", "", "", "", nodeB}, waits: []span{{}, back(0), back(1), back(2), {}}, owner: nodeB},
		"no member at all": {request: risky, steps: []step{undelivered, done}, targets: []string{"", "", nodeB}, waits: []span{back(0), {}}, owner: nodeB},

		"no answer to what is repeatable": {request: once, cached: nodeA, steps: []step{broken, broken, done},
			targets: []string{nodeA, "", "", nodeB}, waits: []span{{}, back(0), {}}, owner: nodeB},
		"no answer to what is not": {request: risky, cached: nodeA, steps: []step{broken}, targets: []string{nodeA},
			code: messages.CodeUnknownOutcome, cause: messages.CodeUnavailable, owner: nodeA},
		"no answer to a handoff": {request: hand, cached: nodeA, steps: []step{broken}, targets: []string{nodeA},
			code: messages.CodeUnknownOutcome, cause: messages.CodeUnavailable, owner: nodeA},

		"another owner is asked at once": {request: risky, cached: nodeA, steps: []step{notOwner(nodeA, nodeB), done},
			targets: []string{nodeA, nodeB}, waits: []span{{}}, owner: nodeB},
		"four hops, then a pause": {request: risky, steps: []step{notOwner(nodeA, nodeB), notOwner(nodeB, nodeA), notOwner(nodeA, nodeB),
			notOwner(nodeB, nodeA), notOwner(nodeA, nodeB), notOwner(nodeB, nodeA), ok(nodeA, 1, 1)},
			targets: []string{"", nodeB, nodeA, nodeB, nodeA, nodeB, nodeA}, waits: []span{{}, {}, {}, {}, back(0), {}}, owner: nodeA},
		"not the owner, and it knows none": {request: risky, cached: nodeA, steps: []step{notOwner(nodeA, ""), done},
			targets: []string{nodeA, "", nodeB}, waits: []span{back(0), {}}, owner: nodeB},
		"a handoff of what is open nowhere": {request: hand, cached: nodeA, steps: []step{notOwner(nodeA, ""), is(nodeB), notOwner(nodeB, "")},
			targets: []string{nodeA, "", nodeB}, waits: []span{back(0), {}}, code: messages.CodeNotOwner},
		"a handoff of what is open on no member": {request: hand, steps: []step{is(nodeB), refuse(nodeB, messages.CodeNotFound)},
			targets: []string{"", nodeB}, waits: []span{{}}, code: messages.CodeNotFound, owner: nodeB},
		"a forget opens what is open nowhere": {request: purge, steps: []step{is(nodeB), notOwner(nodeB, ""), is(nodeA), ok(nodeA, 1, 0)},
			targets: []string{"", nodeB, "", nodeA}, waits: []span{{}, back(0), {}}},

		"incapable: who can, at once": {request: risky, cached: nodeA, steps: []step{no(nodeA, messages.Error{Code: messages.CodeIncapable, Owner: nodeB}), done},
			targets: []string{nodeA, nodeB}, waits: []span{{}}, owner: nodeB},
		"incapable, and nobody is known who can": {request: risky, cached: nodeA, steps: []step{no(nodeA, messages.Error{Code: messages.CodeIncapable, RetryAfter: 100 * ms}), is(nodeB), done},
			targets: []string{nodeA, "", nodeB}, waits: []span{about(100 * ms), {}}, owner: nodeB},
		"no such tenant": {request: risky, cached: nodeA, steps: []step{refuse(nodeA, messages.CodeUnknownTenant)}, targets: []string{nodeA}, code: messages.CodeUnknownTenant, owner: nodeA},

		"draining: the next owner at once": {request: risky, cached: nodeA, steps: []step{no(nodeA, messages.Error{Code: messages.CodeDraining, Owner: nodeB}), done},
			targets: []string{nodeA, nodeB}, waits: []span{{}}, owner: nodeB},
		"draining, next owner unknown": {request: risky, cached: nodeA, steps: []step{no(nodeA, messages.Error{Code: messages.CodeDraining, RetryAfter: 100 * ms}),
			no(nodeA, messages.Error{Code: messages.CodeDraining, RetryAfter: time.Second}), refuse(nodeA, messages.CodeDraining), done},
			targets: []string{nodeA, "", "", "", nodeB}, waits: []span{about(100 * ms), about(250 * ms), back(0), {}}, owner: nodeB},

		"held: whoever will acquire is asked again": {request: risky, cached: nodeB, steps: []step{held(nodeB, 2*time.Second), held(nodeB, 300*ms), held(nodeB, 0), held(nodeB, 1), done},
			targets: []string{nodeB, nodeB, nodeB, nodeB, nodeB}, waits: []span{about(500 * ms), about(300 * ms), back(0), about(10 * ms)}, owner: nodeB},
		"held, by whom a member has named": {request: risky, steps: []step{is(nodeB), held(nodeB, 100*ms), done}, targets: []string{"", nodeB, nodeB}, waits: []span{{}, about(100 * ms)}, owner: nodeB},

		"overloaded": {request: risky, cached: nodeB, steps: []step{no(nodeB, messages.Error{Code: messages.CodeOverloaded, RetryAfter: 2 * time.Second}),
			refuse(nodeB, messages.CodeOverloaded), done}, targets: []string{nodeB, nodeB, nodeB}, waits: []span{about(2 * time.Second), back(0)}, owner: nodeB},
		"nothing more can be saved": {request: risky, cached: nodeB, steps: []step{no(nodeB, messages.Error{Code: messages.CodeUnsavedLimit, RetryAfter: 2 * time.Second}),
			refuse(nodeB, messages.CodeUnsavedLimit), done}, targets: []string{nodeB, nodeB, nodeB}, waits: []span{about(2 * time.Second), back(0)}, owner: nodeB},
		"fenced":   {request: risky, cached: nodeA, steps: []step{refuse(nodeA, messages.CodeFenced), done}, targets: []string{nodeA, "", nodeB}, waits: []span{back(0), {}}, owner: nodeB},
		"closed":   {request: risky, cached: nodeA, steps: []step{refuse(nodeA, messages.CodeClosed), done}, targets: []string{nodeA, "", nodeB}, waits: []span{back(0), {}}, owner: nodeB},
		"canceled": {request: risky, cached: nodeA, steps: []step{refuse(nodeA, messages.CodeCanceled), done}, targets: []string{nodeA, "", nodeB}, waits: []span{back(0), {}}, owner: nodeB},
		"the attempt's deadline": {request: risky, cached: nodeB, steps: []step{refuse(nodeB, messages.CodeDeadlineExceeded), done},
			targets: []string{nodeB, nodeB}, waits: []span{back(0)}, owner: nodeB},

		"unavailable, before an append":    {request: risky, cached: nodeB, steps: []step{refuse(nodeB, messages.CodeUnavailable), done}, targets: []string{nodeB, nodeB}, waits: []span{back(0)}, owner: nodeB},
		"unavailable, before a read":       {request: read, cached: nodeB, steps: []step{refuse(nodeB, messages.CodeUnavailable), done}, targets: []string{nodeB, nodeB}, waits: []span{back(0)}, owner: nodeB},
		"unavailable, in a snapshot":       {request: save, cached: nodeB, steps: []step{refuse(nodeB, messages.CodeUnavailable), done}, targets: []string{nodeB, nodeB}, waits: []span{back(0)}, owner: nodeB},
		"unavailable, in a handoff":        {request: hand, cached: nodeB, steps: []step{refuse(nodeB, messages.CodeUnavailable)}, targets: []string{nodeB}, code: messages.CodeUnavailable, owner: nodeB},
		"unavailable, in a forget":         {request: purge, cached: nodeB, steps: []step{refuse(nodeB, messages.CodeUnavailable)}, targets: []string{nodeB}, code: messages.CodeUnavailable, owner: nodeB},
		"fenced, in a forget":              {request: purge, cached: nodeB, steps: []step{refuse(nodeB, messages.CodeFenced)}, targets: []string{nodeB}, code: messages.CodeFenced, owner: nodeB},
		"closed, in a forget":              {request: purge, cached: nodeB, steps: []step{refuse(nodeB, messages.CodeClosed)}, targets: []string{nodeB}, code: messages.CodeClosed, owner: nodeB},
		"the node's deadline, in forget":   {request: purge, cached: nodeB, steps: []step{refuse(nodeB, messages.CodeDeadlineExceeded)}, targets: []string{nodeB}, code: messages.CodeUnknownOutcome, cause: messages.CodeDeadlineExceeded, owner: nodeB},
		"unknown, of a forget":             {request: purge, cached: nodeB, steps: []step{unknown(nodeB, messages.CodeDraining)}, targets: []string{nodeB}, code: messages.CodeUnknownOutcome, cause: messages.CodeDraining, owner: nodeB},
		"draining, before a forget":        {request: purge, cached: nodeB, steps: []step{no(nodeB, messages.Error{Code: messages.CodeDraining, Owner: nodeA}), done}, targets: []string{nodeB, nodeA}, waits: []span{{}}},
		"held, before a forget":            {request: purge, cached: nodeB, steps: []step{held(nodeB, 100*ms), done}, targets: []string{nodeB, nodeB}, waits: []span{about(100 * ms)}},
		"a handoff that was done":          {request: hand, cached: nodeB, steps: []step{done}, targets: []string{nodeB}},
		"a handoff that another owner did": {request: hand, cached: nodeA, steps: []step{notOwner(nodeA, nodeB), done}, targets: []string{nodeA, nodeB}, waits: []span{{}}},

		"unknown outcome of what is repeatable": {request: once, cached: nodeB, steps: []step{unknown(nodeB, messages.CodeDeadlineExceeded), done},
			targets: []string{nodeB, nodeB}, waits: []span{back(0)}, owner: nodeB},
		"unknown outcome, by a fence": {request: once, cached: nodeA, steps: []step{unknown(nodeA, messages.CodeFenced), done},
			targets: []string{nodeA, "", nodeB}, waits: []span{back(0), {}}, owner: nodeB},
		"unknown outcome of what is not": {request: risky, cached: nodeA, steps: []step{unknown(nodeA, messages.CodeFenced)},
			targets: []string{nodeA}, code: messages.CodeUnknownOutcome, cause: messages.CodeFenced, owner: nodeA},
		"an answer that never fits": {request: once, cached: nodeA, steps: []step{unknown(nodeA, messages.CodeTooLarge)},
			targets: []string{nodeA}, code: messages.CodeUnknownOutcome, cause: messages.CodeTooLarge, owner: nodeA},

		"history lost": {request: once, cached: nodeA, steps: []step{refuse(nodeA, messages.CodeHistoryLost)}, targets: []string{nodeA}, code: messages.CodeHistoryLost, owner: nodeA},
		"sql":          {request: once, cached: nodeA, steps: []step{refuse(nodeA, messages.CodeSQL)}, targets: []string{nodeA}, code: messages.CodeSQL, owner: nodeA},
		"a later code": {request: once, cached: nodeA, steps: []step{refuse(nodeA, "not-yet-known")}, targets: []string{nodeA}, code: "not-yet-known", owner: nodeA},
		"an open tenant's refusal is its owner's": {request: once, cached: nodeA, steps: []step{with(&messages.Reply{Owner: nodeB, Epoch: 3, Seq: 1,
			Error: &messages.Error{Code: messages.CodeCommandFailed}})}, targets: []string{nodeA}, code: messages.CodeCommandFailed, owner: nodeB},

		"no reply":                 {request: risky, cached: nodeA, steps: []step{with(nil)}, targets: []string{nodeA}, code: messages.CodeUnknownOutcome, cause: messages.CodeInternal, owner: nodeA},
		"no reply, repeatable":     {request: once, cached: nodeA, steps: []step{with(nil), done}, targets: []string{nodeA, "", nodeB}, waits: []span{{}, {}}, owner: nodeB},
		"no owner":                 {request: risky, cached: nodeA, steps: []step{with(&messages.Reply{Epoch: 1, Appended: make([]messages.Appended, 2)})}, targets: []string{nodeA}, code: messages.CodeUnknownOutcome, cause: messages.CodeInternal, owner: nodeA},
		"no epoch":                 {request: risky, cached: nodeA, steps: []step{with(&messages.Reply{Owner: nodeA, Appended: make([]messages.Appended, 2)})}, targets: []string{nodeA}, code: messages.CodeUnknownOutcome, cause: messages.CodeInternal, owner: nodeA},
		"too few seqs":             {request: risky, cached: nodeA, steps: []step{with(&messages.Reply{Owner: nodeA, Epoch: 1, Appended: make([]messages.Appended, 1)})}, targets: []string{nodeA}, code: messages.CodeUnknownOutcome, cause: messages.CodeInternal, owner: nodeA},
		"no result":                {request: read, cached: nodeA, steps: []step{with(&messages.Reply{Owner: nodeA, Epoch: 1}), done}, targets: []string{nodeA, "", nodeB}, waits: []span{{}, {}}, owner: nodeB},
		"no manifest":              {request: save, cached: nodeA, steps: []step{with(&messages.Reply{Owner: nodeA, Epoch: 1}), done}, targets: []string{nodeA, "", nodeB}, waits: []span{{}, {}}, owner: nodeB},
		"an error without a code":  {request: risky, cached: nodeA, steps: []step{with(&messages.Reply{Error: &messages.Error{}})}, targets: []string{nodeA}, code: messages.CodeUnknownOutcome, cause: messages.CodeInternal, owner: nodeA},
		"a handoff tells no state": {request: hand, cached: nodeA, steps: []step{with(&messages.Reply{})}, targets: []string{nodeA}},
	} {
		tables[name] = tc
	}
	// Whatever any member answers: nothing was done, so that every request may go on, those too that must not be
	// repeated.
	for name, tc := range map[string]struct {
		step step
		wait span
	}{
		"no answer":                {broken, back(0)},
		"not delivered":            {undelivered, back(0)},
		"no reply":                 {with(nil), back(0)},
		"an answer without a name": {with(&messages.Reply{}), back(0)},
		"a state without a name":   {with(&messages.Reply{Epoch: 3, Seq: 9, Appended: make([]messages.Appended, 2)}), back(0)},
		"an error without a code":  {with(&messages.Reply{Owner: nodeA, Error: &messages.Error{}}), back(0)},
		"unavailable":              {refuse(nodeA, messages.CodeUnavailable), back(0)},
		"its deadline":             {refuse(nodeA, messages.CodeDeadlineExceeded), back(0)},
		"canceled":                 {refuse(nodeA, messages.CodeCanceled), back(0)},
		"closed":                   {refuse(nodeA, messages.CodeClosed), back(0)},
		"fenced":                   {refuse(nodeA, messages.CodeFenced), back(0)},
		"unknown outcome":          {unknown(nodeA, messages.CodeInternal), back(0)},
		"held":                     {held(nodeA, 100*ms), back(0)},
		"nobody":                   {notOwner(nodeA, ""), back(0)},
		"draining":                 {no(nodeA, messages.Error{Code: messages.CodeDraining, RetryAfter: 100 * ms}), about(100 * ms)},
		"overloaded":               {no(nodeA, messages.Error{Code: messages.CodeOverloaded, RetryAfter: 2 * time.Second}), about(2 * time.Second)},
	} {
		for _, one := range []struct {
			name    string
			request messages.Request
			owner   string
		}{{"append", risky, nodeB}, {"query", read, nodeB}, {"handoff", hand, ""}, {"forget", purge, ""}} {
			tables["any member, before a "+one.name+": "+name] = table{request: one.request, steps: []step{tc.step, done},
				targets: []string{"", "", nodeB}, waits: []span{tc.wait, {}}, owner: one.owner}
		}
	}
	for name, tc := range tables {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(tc.steps...)
				c := knowing(t, s, tc.cached)
				reply := c.Do(t.Context(), &tc.request)
				require.NotNil(t, reply)
				require.Equal(t, tc.targets, s.targets())
				waits := s.waits()
				require.Len(t, waits, len(tc.waits))
				for i, want := range tc.waits {
					require.GreaterOrEqual(t, waits[i], want.from, "wait %d", i)
					require.LessOrEqual(t, waits[i], want.to, "wait %d", i)
				}
				if tc.code == "" {
					require.Nil(t, reply.Error)
				} else {
					require.NotNil(t, reply.Error)
					require.Equal(t, tc.code, reply.Error.Code, reply.Error)
					require.Equal(t, tc.cause, reply.Error.Cause, reply.Error)
				}
				require.Equal(t, tc.owner, c.Owner(tenantKey))
			})
		})
	}
}

// What travels with each attempt.
func TestDo_FillsInTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(silence, silence, silence, is(nodeA), ok(nodeA, 1, 1))
		c := knowing(t, s, nodeA)
		req := once
		req.Seen = messages.Seen{Epoch: 1, Seq: 1}
		want := req
		require.Nil(t, c.Do(t.Context(), &req).Error)
		require.Equal(t, want, req, "the caller's request stays as it is")
		require.Equal(t, []string{nodeA, "", "", "", nodeA}, s.targets())
		left := []time.Duration{2 * time.Second, 500 * ms, 500 * ms, 500 * ms, 4 * time.Second} // any member only says who
		avoid := [][]string{nil, {nodeA}, {nodeA}, {nodeA}, nil}                                // whom a member names is worth a second try
		for i, one := range s.sent {
			require.Equal(t, messages.WireVersion, one.req.Version)
			require.Equal(t, left[i], one.left, "attempt %d", i)
			require.Equal(t, left[i].Milliseconds(), one.req.TimeoutMS, "attempt %d", i)
			require.ElementsMatch(t, avoid[i], one.req.Avoid, "attempt %d", i)
			if one.target != "" {
				require.Equal(t, want.Events, one.req.Events)
				require.Equal(t, want.Seen, one.req.Seen)
			}
		}
	})
}

// An owner that does not answer in time gets twice as long the next time.
func TestDo_AttemptsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(silence)
		s.home = nodeA
		c := knowing(t, s, nodeA)
		require.ErrorIs(t, c.Do(t.Context(), &once).Error, messages.ErrUnknownOutcome)
		var left []time.Duration
		for _, one := range s.sent {
			left = append(left, one.left.Round(time.Second))
		}
		require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}, left, "the last one: what the deadline leaves")
	})
}

// Who should be asked can be asked for.
func TestDo_Locate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(with(&messages.Reply{Owner: nodeB}))
		c := newClient(t, s, client.Config{})
		req := messages.Request{Action: messages.ActionLocate, Key: tenantKey, Seen: messages.Seen{Epoch: 4}}
		reply := c.Do(t.Context(), &req)
		require.Nil(t, reply.Error)
		require.Equal(t, nodeB, reply.Owner)
		require.Equal(t, nodeB, c.Owner(tenantKey))

		s = play(with(&messages.Reply{}), with(&messages.Reply{Owner: nodeB}))
		require.Equal(t, nodeB, newClient(t, s, client.Config{}).Do(t.Context(), &req).Owner, "an answer that names nobody is none")
		require.Len(t, s.sent, 2)
	})
}

// An owner that another caller has found meanwhile is used, and is not forgotten for a failure of the old one.
func TestDo_LearnsFromOtherCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *client.Client
		nested := func() step {
			return func(ctx context.Context, req *messages.Request) (*messages.Reply, error) {
				require.Nil(t, c.Do(ctx, &read).Error)
				return undelivered(ctx, req)
			}
		}
		s := play(nested(), no(nodeA, messages.Error{Code: messages.CodeNotOwner, Owner: nodeB}), ok(nodeB, 1, 1))
		c = knowing(t, s, nodeA)
		require.Nil(t, c.Do(t.Context(), &risky).Error)
		require.Equal(t, []string{nodeA, nodeA, nodeB, nodeB}, s.targets())
	})
}

// A request whose deadline is nearer than a millisecond does not travel as one without a deadline.
func TestDo_TheLastMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Microsecond)
		defer cancel()
		s := play(ok(nodeA, 1, 1))
		require.Nil(t, newClient(t, s, client.Config{}).Do(ctx, &read).Error)
		require.EqualValues(t, 1, s.sent[0].req.TimeoutMS)
	})
}

// What no node would carry out is not sent.
func TestDo_RefusesWhatCanNeverWork(t *testing.T) {
	s := play(ok(nodeA, 1, 1))
	c := newClient(t, s, client.Config{})
	for code, req := range map[messages.Code]*messages.Request{
		messages.CodeInvalidID:       {Action: messages.ActionQuery, SQL: "SELECT 1"},
		messages.CodeInvalidArgument: nil,
		messages.CodeTooLarge:        {Action: messages.ActionAppend, Key: tenantKey, Events: make([]messages.Event, messages.MaxBatchEvents+1)},
	} {
		require.Equal(t, code, c.Do(t.Context(), req).Error.Code)
	}
	require.Empty(t, s.sent)
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	_, err := client.New(nil, client.Config{})
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	for _, cfg := range []client.Config{{AttemptTimeout: -1}, {LocateTimeout: -1}, {RequestTimeout: -1}, {MaxOwners: -1}} {
		_, err := client.New(play(), cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument)
	}
}

// The owners that are remembered are bounded.
func TestDo_RemembersSoManyOwners(t *testing.T) {
	c := newClient(t, play(ok(nodeA, 1, 1)), client.Config{MaxOwners: 3})
	var keys []messages.Key
	for i := range 20 {
		key, err := messages.NewKey("acme", messages.TenantID("t-"+string(rune('a'+i%6))+"3129611eac9be1d5994a2b216b06e"+string(rune('0'+i/6))+"d"))
		require.NoError(t, err)
		keys = append(keys, key)
		req := read
		req.Key = key
		for range 2 {
			require.Nil(t, c.Do(t.Context(), &req).Error)
			require.Equal(t, nodeA, c.Owner(key))
		}
	}
	known := 0
	for _, key := range keys {
		if c.Owner(key) != "" {
			known++
		}
	}
	require.Equal(t, 3, known)
}
