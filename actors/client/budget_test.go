package client_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
)

// crowd sends n requests, one every pause, and waits for them.
func crowd(t *testing.T, c *client.Client, n int, pause time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() { c.Do(t.Context(), &once) })
		time.Sleep(pause)
	}
	all.Wait()
}

// Owners that are overloaded answer late. They are not asked twice as much for that.
func TestHedge_AnOverloadedClusterIsNotAskedTwiceAsMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := enact(map[string][]step{"": {is(nodeA)}, nodeA: {after(700*ms, ok(nodeA, 1, 7))}})
		c := hedging(t, s)
		const requests, burst = 5000, 50
		var all sync.WaitGroup
		all.Go(func() { crowd(t, c, 1000, ms) })
		time.Sleep(time.Second) // until then it has answered nobody
		s.mu.Lock()
		s.sent = nil
		s.mu.Unlock()
		crowd(t, c, requests, ms)
		all.Wait()
		extra := s.count(nodeA) - requests
		require.LessOrEqual(t, extra, requests/10+burst)
		require.LessOrEqual(t, s.count(""), requests/10+burst, "nor are the others")
		require.Greater(t, extra, requests/20, "what is allowed is used")
		require.Positive(t, c.Stats().Denied)
	})
}

// An owner that answers nobody costs the others a bounded number of questions at a time, and itself no more than the budget.
func TestHedge_ASilentOwnerCostsABoundedNumberOfQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := enact(map[string][]step{"": {after(50*ms, is(nodeA))}, nodeA: {silence}})
		c := hedging(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 1900*ms)
		defer cancel()
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() { c.Do(ctx, &once) })
		}
		all.Wait()
		require.Equal(t, 8, s.most[""])
		require.Greater(t, s.count(""), 2*8, "those that have ended make room")
		require.LessOrEqual(t, s.count(nodeA), 500+50+50)
	})
}

// The time after which a request is hedged follows from what was measured, within bounds.
func TestHedge_After(t *testing.T) {
	for name, tc := range map[string]struct{ usual, rare, after time.Duration }{
		"answers are fast":            {2 * ms, 2 * ms, 100 * ms},
		"some are slow":               {2 * ms, 1000 * ms, 100 * ms},
		"they take a while":           {160 * ms, 1000 * ms, 160 * ms},
		"they are slow, each of them": {900 * ms, 900 * ms, 250 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := enact(map[string][]step{"": {is(nodeA)}})
				for i := range 300 {
					d := tc.usual
					if i%25 == 0 {
						d = tc.rare
					}
					s.members[nodeA] = append(s.members[nodeA], after(d, ok(nodeA, 1, 7)))
				}
				plays := s.members[nodeA]
				c := newClient(t, s, client.Config{HedgeAfter: hedgeAfter})
				for i := range plays {
					s.members[nodeA] = plays[i : i+1]
					require.Nil(t, c.Do(t.Context(), &read).Error)
				}
				s.members[nodeA], s.sent, s.begun = []step{after(1500*ms, ok(nodeA, 1, 7))}, nil, time.Now()
				require.Nil(t, c.Do(t.Context(), &once).Error)
				require.Equal(t, []string{nodeA, "", nodeA}, s.targets())
				require.Equal(t, tc.after, s.sent[1].at)
			})
		})
	}
}
