package client_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

// stage is a Transport for many requests at once: each member answers for itself, with one step after the other, the last one
// again and again. What it keeps is for after the requests.
type stage struct {
	begun time.Time

	mu      sync.Mutex
	members map[string][]step
	sent    []*sent
	under   map[string]int // requests under way, by target
	most    map[string]int // and how many there were at once
}

func enact(members map[string][]step) *stage {
	return &stage{begun: time.Now(), members: members, under: make(map[string]int), most: make(map[string]int)}
}

func (s *stage) Send(ctx context.Context, target string, req *messages.Request) (*messages.Reply, error) {
	if target == "" {
		onlyLocates(req)
	}
	deadline, _ := ctx.Deadline()
	s.mu.Lock()
	one := &sent{target: target, req: *req, at: time.Since(s.begun), left: time.Until(deadline)}
	s.sent = append(s.sent, one)
	s.under[target]++
	s.most[target] = max(s.most[target], s.under[target])
	plays := s.members[target]
	if len(plays) > 1 {
		s.members[target] = plays[1:]
	}
	s.mu.Unlock()
	reply, err := plays[0](ctx, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under[target]--
	one.until = time.Since(s.begun)
	return reply, err
}

func (s *stage) targets() (targets []string) {
	for _, one := range s.sent {
		targets = append(targets, one.target)
	}
	return targets
}

func (s *stage) count(target string) (n int) {
	for _, one := range s.sent {
		if one.target == target {
			n++
		}
	}
	return n
}

// after is a step that takes some time, or until its caller gives up.
func after(d time.Duration, then step) step {
	return func(ctx context.Context, req *messages.Request) (*messages.Reply, error) {
		select {
		case <-time.After(d):
			return then(ctx, req)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// hedging makes a client that hedges, as it does by default, and knows that nodeA owns the tenant.
func hedging(t *testing.T, s *stage) *client.Client {
	t.Helper()
	members := s.members
	s.members = map[string][]step{"": {is(nodeA)}, nodeA: {ok(nodeA, 1, 1)}}
	c := newClient(t, s, client.Config{HedgeAfter: hedgeAfter})
	require.Nil(t, c.Do(t.Context(), &read).Error)
	require.Equal(t, nodeA, c.Owner(tenantKey))
	time.Sleep(time.Second) // of the bubble: that answer is not a recent one
	s.members, s.sent, s.begun = maps.Clone(members), nil, time.Now()
	clear(s.most)
	return c
}

// hedgeAfter is the default of client.Config.HedgeAfter.
const hedgeAfter = 100 * ms
