package client_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

// scene is a script in which each member answers for itself, and what it answers depends on the time.
func scene(members map[string]func(at time.Duration) step) *script {
	s := play()
	s.steps = []step{func(ctx context.Context, req *messages.Request) (*messages.Reply, error) {
		now := s.sent[len(s.sent)-1]
		return members[now.target](now.at)(ctx, req)
	}}
	return s
}

func always(one step) func(time.Duration) step { return func(time.Duration) step { return one } }

// from is one step, and another one from a time on.
func from(at time.Duration, before, after step) func(time.Duration) step {
	return func(now time.Duration) step {
		if now < at {
			return before
		}
		return after
	}
}

// first names the first one who is not to be avoided.
func first(owners ...string) step {
	return func(ctx context.Context, req *messages.Request) (*messages.Reply, error) {
		for _, owner := range owners {
			if !slices.Contains(req.Avoid, owner) {
				return is(owner)(ctx, req)
			}
		}
		return is(owners[len(owners)-1])(ctx, req)
	}
}

// avoids are the attempts that named an owner to avoid.
func (s *script) avoids(owner string) (attempts []sent) {
	for _, one := range s.sent {
		if slices.Contains(one.req.Avoid, owner) {
			attempts = append(attempts, one)
		}
	}
	return attempts
}

// An owner to whom there is no way may be back in a moment. Only then are the members asked for another one.
func TestDo_AnOwnerThatIsAwayIsGivenAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scene(map[string]func(time.Duration) step{"": always(first(nodeA, nodeB)), nodeA: always(undelivered), nodeB: always(ok(nodeB, 2, 7))})
		c := knowing(t, s, nodeA)
		s.begun = time.Now()
		require.Nil(t, c.Do(t.Context(), &risky).Error)
		require.Equal(t, nodeB, c.Owner(tenantKey))

		targets, waits := s.targets(), s.waits()
		require.Equal(t, []string{nodeA, "", nodeA, ""}, targets[:4], "the cached owner is forgotten at once")
		require.Zero(t, waits[0])
		for i, target := range targets[1:] {
			switch {
			case target != "":
				require.Zero(t, waits[i], "whom a member names is asked at once")
			case i > 0:
				require.GreaterOrEqual(t, waits[i], back(i/2-1).from)
				require.LessOrEqual(t, waits[i], back(i/2-1).to)
			}
		}
		require.Less(t, len(s.sent), 24)

		avoids := s.avoids(nodeA)
		require.Equal(t, s.sent[len(s.sent)-2:], avoids, "the last question, and the request that follows")
		require.Equal(t, nodeB, avoids[1].target)
		last := s.sent[len(s.sent)-3]
		require.Equal(t, nodeA, last.target)
		require.GreaterOrEqual(t, last.at, 500*ms, "it was asked to the end of its moment")
		require.Less(t, s.sent[len(s.sent)-5].at, 500*ms)
		require.Less(t, avoids[1].at, 1500*ms)
	})
}

func TestDo_AnOwnerThatComesBackIsNotAvoided(t *testing.T) {
	busy := no(nodeA, messages.Error{Code: messages.CodeOverloaded, RetryAfter: 700 * ms})
	for name, members := range map[string]map[string]func(time.Duration) step{
		"it reconnects": {"": always(first(nodeA, nodeB)), nodeA: from(300*ms, undelivered, ok(nodeA, 1, 2))},
		// The client's own connection breaks in the middle of a request, all are away for long, and this owner is the last to come back.
		"after an outage": {"": from(3*time.Second, undelivered, first(nodeA, nodeB)),
			nodeA: func(at time.Duration) step {
				return from(3499*ms, from(1, broken, undelivered)(at), ok(nodeA, 1, 2))(at) // within a moment of the first member
			}},
		"a connection breaks": {"": always(first(nodeA, nodeB)), nodeA: from(1, broken, ok(nodeA, 1, 2))},
		// What was before an answer does not count.
		"it has answered meanwhile": {"": always(first(nodeA, nodeB)), nodeA: func(at time.Duration) step {
			return from(700*ms, from(200*ms, undelivered, busy)(at), from(1300*ms, undelivered, ok(nodeA, 1, 2))(at))(at)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := scene(members)
				c := knowing(t, s, nodeA)
				s.begun = time.Now()
				require.Nil(t, c.Do(t.Context(), &once).Error)
				require.Empty(t, s.avoids(nodeA))
				require.Equal(t, nodeA, s.sent[len(s.sent)-1].target)
				require.NotContains(t, s.targets(), nodeB)
			})
		})
	}
}

// kill -9: the owner does not come back. It is avoided, another member waits for the end of its lease, and then goes on.
func TestDo_AnOwnerThatWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 2 * time.Second
		s := scene(map[string]func(time.Duration) step{"": always(first(nodeA, nodeB)), nodeA: always(undelivered), nodeB: func(at time.Duration) step {
			if left := ttl - at; left > 0 {
				return no(nodeB, messages.Error{Code: messages.CodeHeld, Owner: nodeA, Epoch: 4, RetryAfter: left, Lease: lease(nodeA, 4, ttl)})
			}
			return ok(nodeB, 5, 7)
		}})
		c := knowing(t, s, nodeA)
		s.begun = time.Now()
		reply := c.Do(t.Context(), &risky)
		require.Nil(t, reply.Error)
		require.EqualValues(t, 5, reply.Epoch)
		require.Equal(t, nodeB, c.Owner(tenantKey))
		require.Less(t, time.Since(s.begun), ttl+500*ms)
		atB := 0
		for _, one := range s.sent {
			if one.target == nodeB {
				atB++
				require.Equal(t, []string{nodeA}, one.req.Avoid, "B must not send the caller back")
			}
		}
		require.Greater(t, atB, 1, "held, then granted")
	})
}

// An owner that all name, and that cannot be reached, is no reason to hurry.
func TestDo_AnOwnerThatIsNamedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scene(map[string]func(time.Duration) step{"": always(is(nodeA)), nodeA: always(undelivered)})
		c := newClient(t, s, client.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		e := c.Do(ctx, &once).Error
		require.Equal(t, messages.CodeDeadlineExceeded, e.Code, "nothing was done")
		require.Equal(t, messages.CodeUnavailable, e.Cause)
		require.ErrorIs(t, e, client.ErrNotDelivered)
		require.Less(t, len(s.sent), 2*260)
	})
}

// Of those who did not answer, the newest few are named.
func TestDo_AvoidIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
		var steps []step
		for _, name := range names {
			steps = append(steps, is(name), with(nil))
		}
		s := play(append(steps, ok("y", 1, 1))...)
		c := newClient(t, s, client.Config{})
		require.Nil(t, c.Do(t.Context(), &once).Error)
		require.Equal(t, names[2:], s.sent[len(s.sent)-1].req.Avoid)
		for _, one := range s.sent {
			require.LessOrEqual(t, len(one.req.Avoid), 8)
		}
	})
}

// An owner that was silent, but renews its lease, is alive: waiting elsewhere for the end of its lease would be
// waiting for ever.
func TestDo_AnOwnerThatRenewsIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := func(end time.Duration) step {
			return no(nodeB, messages.Error{Code: messages.CodeHeld, Owner: nodeA, Epoch: 4, RetryAfter: 300 * ms, Lease: lease(nodeA, 4, end)})
		}
		s := play(silence, is(nodeB), held(time.Second), held(time.Second), held(2*time.Second), ok(nodeA, 4, 9))
		c := knowing(t, s, nodeA)
		require.Nil(t, c.Do(t.Context(), &once).Error)
		require.Equal(t, []string{nodeA, "", nodeB, nodeB, nodeB, nodeA}, s.targets())
		require.Equal(t, []string{nodeA}, s.sent[4].req.Avoid)
		require.Empty(t, s.sent[5].req.Avoid)
	})
}

// An owner that did not answer is avoided until it does, even if others still name it.
func TestDo_WhoAnswersIsNotAvoidedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *client.Client
		fenced := no(nodeB, messages.Error{Code: messages.CodeFenced})
		named := func(ctx context.Context, req *messages.Request) (*messages.Reply, error) {
			require.Nil(t, c.Do(ctx, &read).Error) // by nodeA: another caller remembers it again
			return fenced(ctx, req)
		}
		s := play(silence, named, is(nodeA), ok(nodeA, 1, 1), no(nodeA, messages.Error{Code: messages.CodeDraining}), ok(nodeB, 2, 1))
		c = knowing(t, s, nodeA)
		req := once
		req.Avoid = make([]string, 0, 4)
		require.Nil(t, c.Do(t.Context(), &req).Error)
		require.Equal(t, []string{nodeA, "", "", nodeA, "", nodeA}, s.targets())
		require.Equal(t, []string{nodeA}, s.sent[4].req.Avoid)
		require.Empty(t, s.sent[5].req.Avoid)
		require.Equal(t, make([]string, 4), req.Avoid[:4], "the caller's list stays as it is")
	})
}
