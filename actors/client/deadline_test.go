package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

// At the deadline the caller is told the truth: what it was refused with last, or that it cannot be known.
func TestDo_AtTheDeadline(t *testing.T) {
	held := no(nodeB, messages.Error{Code: messages.CodeHeld, Owner: nodeA, Epoch: 4, RetryAfter: 300 * ms, Lease: lease(nodeA, 4, time.Second)})
	for name, tc := range map[string]struct {
		request messages.Request
		steps   []step
		code    messages.Code
		is      []error
		isNot   []error
	}{
		"held to the end": {request: risky, steps: []step{held}, code: messages.CodeDeadlineExceeded,
			is: []error{messages.ErrHeld, context.DeadlineExceeded}, isNot: []error{messages.ErrUnknownOutcome}},
		"nobody there": {request: once, steps: []step{undelivered}, code: messages.CodeDeadlineExceeded,
			is: []error{messages.ErrUnavailable, client.ErrNotDelivered}, isNot: []error{messages.ErrUnknownOutcome}},
		"silence, not repeatable": {request: risky, steps: []step{silence}, code: messages.CodeUnknownOutcome,
			is: []error{context.DeadlineExceeded}},
		"silence, repeatable": {request: once, steps: []step{silence}, code: messages.CodeUnknownOutcome,
			is: []error{context.DeadlineExceeded}},
		"one silence, then refusals": {request: once, steps: []step{silence, held}, code: messages.CodeUnknownOutcome,
			is: []error{context.DeadlineExceeded}},
		"refusals, then silence": {request: risky, steps: []step{held, silence}, code: messages.CodeUnknownOutcome,
			is: []error{context.DeadlineExceeded}},
		"an unknown outcome, then refusals": {request: once, steps: []step{no(nodeA, messages.Error{Code: messages.CodeUnknownOutcome, Cause: messages.CodeFenced}), held},
			code: messages.CodeUnknownOutcome, is: []error{context.DeadlineExceeded}},
		"an answer that goes backwards, then refusals": {request: messages.Request{Action: messages.ActionAppend, Key: tenantKey, Events: once.Events, Seen: messages.Seen{Epoch: 2}},
			steps: []step{ok(nodeA, 1, 1), held}, code: messages.CodeUnknownOutcome, is: []error{context.DeadlineExceeded}},
		"a read does nothing": {request: read, steps: []step{silence}, code: messages.CodeDeadlineExceeded,
			is: []error{context.DeadlineExceeded}, isNot: []error{messages.ErrUnknownOutcome}},
		"a read that was cut off": {request: read, steps: []step{broken}, code: messages.CodeDeadlineExceeded,
			is: []error{messages.ErrUnavailable, errCut}, isNot: []error{messages.ErrUnknownOutcome}},
		"overloaded for longer": {request: risky, steps: []step{no(nodeA, messages.Error{Code: messages.CodeOverloaded, RetryAfter: time.Hour})},
			code: messages.CodeDeadlineExceeded, is: []error{messages.ErrOverloaded}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(tc.steps...)
				c := knowing(t, s, nodeA)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				begun := time.Now()
				reply := c.Do(ctx, &tc.request)
				require.Equal(t, 20*time.Second, time.Since(begun), "not earlier, not later")
				require.Equal(t, tc.code, reply.Error.Code)
				require.Equal(t, tenantKey.String(), reply.Error.Key)
				for _, target := range tc.is {
					require.ErrorIs(t, reply.Error, target)
				}
				for _, target := range tc.isNot {
					require.NotErrorIs(t, reply.Error, target)
				}
			})
		})
	}
}

func TestDo_TheDeadlineNamesTheLastRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, play(no(nodeB, messages.Error{Code: messages.CodeHeld, Owner: nodeA, Epoch: 4, RetryAfter: 300 * ms, Lease: lease(nodeA, 4, time.Second)})),
			client.Config{RequestTimeout: time.Second})
		begun := time.Now()
		e := c.Do(context.Background(), &risky).Error
		require.Equal(t, time.Second, time.Since(begun), "the deadline of a context that has none")
		require.Equal(t, messages.CodeDeadlineExceeded, e.Code)
		require.Equal(t, messages.CodeHeld, e.Cause)
		require.Equal(t, nodeA, e.Owner)
		require.EqualValues(t, 4, e.Epoch)
		require.Equal(t, 300*ms, e.RetryAfter)
		require.Equal(t, nodeA, e.Lease.Owner)
	})
}

// Backoff has a bound: a request that is refused for a minute comes back twice a second.
func TestDo_BackoffHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(undelivered)
		c := newClient(t, s, client.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NotNil(t, c.Do(ctx, &once).Error)
		for i, wait := range s.waits() {
			require.GreaterOrEqual(t, wait, back(i).from)
			require.LessOrEqual(t, wait, back(i).to)
		}
		require.Greater(t, len(s.sent), 120)
		require.Less(t, len(s.sent), 260)
		// Those who failed together do not come back together.
		late := s.waits()[10:]
		require.Greater(t, slices.Max(late)-slices.Min(late), 100*ms)
	})
}

func TestDo_ACallerThatGivesUp(t *testing.T) {
	for name, tc := range map[string]struct {
		request messages.Request
		step    step
		code    messages.Code
		is      error
	}{
		"while it waits":             {risky, no(nodeA, messages.Error{Code: messages.CodeFenced}), messages.CodeCanceled, messages.ErrFenced},
		"in an attempt":              {risky, silence, messages.CodeUnknownOutcome, context.Canceled},
		"in a repeatable attempt":    {once, silence, messages.CodeUnknownOutcome, context.Canceled},
		"in an attempt that reads":   {read, silence, messages.CodeCanceled, context.Canceled},
		"while nobody is to be told": {risky, undelivered, messages.CodeCanceled, messages.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := knowing(t, play(tc.step), nodeA)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(1500*ms, func() { cancel(errors.New("the caller's own reason")) })
				begun := time.Now()
				e := c.Do(ctx, &tc.request).Error
				require.Equal(t, 1500*ms, time.Since(begun))
				require.Equal(t, tc.code, e.Code)
				require.ErrorIs(t, e, tc.is)
				require.ErrorIs(t, e, context.Canceled)
			})
		})
	}
	t.Run("before", func(t *testing.T) {
		s := play(ok(nodeA, 1, 1))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Equal(t, messages.CodeCanceled, newClient(t, s, client.Config{}).Do(ctx, &once).Error.Code)
		require.Empty(t, s.sent)
	})
}

func TestClose_EndsWhatIsUnderWay(t *testing.T) {
	for name, tc := range map[string]struct {
		request messages.Request
		step    step
		code    messages.Code
	}{
		"refused so far": {risky, undelivered, messages.CodeClosed},
		"in doubt":       {once, silence, messages.CodeUnknownOutcome},
		"a read":         {read, silence, messages.CodeClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(tc.step)
				c := knowing(t, s, nodeA)
				time.AfterFunc(1500*ms, func() { require.NoError(t, c.Close()) })
				begun := time.Now()
				e := c.Do(t.Context(), &tc.request).Error
				require.Equal(t, 1500*ms, time.Since(begun))
				require.Equal(t, tc.code, e.Code)
				require.ErrorIs(t, e, messages.ErrClosed)
				attempts := len(s.sent)
				require.Equal(t, messages.CodeClosed, c.Do(t.Context(), &tc.request).Error.Code)
				require.Len(t, s.sent, attempts)
			})
		})
	}
}
