package s3_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest"
)

// Many goroutines take a dead node's leases: they read its log together, the first revokes, and the others find that.
func TestATakeoverOfManyRevokesOnceAndReadsTheLogFewTimes(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	a, b := nodeOn(t, server, "a"), nodeOn(t, server, "b")
	b.acquire(storetest.NewKey()) // it has a renewal log of its own
	b.proxy.Requests()
	many := keys(60)
	for _, key := range many {
		a.acquire(key)
		a.renew(key, 1)
	}
	isLogGet := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/renewals/")
	}
	all := func(want messages.Code) {
		var group errgroup.Group
		for _, key := range many {
			group.Go(func() error {
				_, err := b.Acquire(t.Context(), key, "b", span)
				if messages.CodeOf(err) != want {
					return fmt.Errorf("not %q: %w", want, err)
				}
				return nil
			})
		}
		require.NoError(t, group.Wait())
	}
	// The first read is answered when all the others are waiting for the next.
	waiting := make(chan struct{})
	var records atomic.Int32
	b.proxy.Passed(func(r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/leases/") && int(records.Add(1)) == len(many) {
			close(waiting)
		}
	})
	firstRead := first(isLogGet)
	b.proxy.Decide(func(r *http.Request) s3test.Fate {
		if firstRead(r) {
			<-waiting
		}
		return s3test.Pass
	})
	all(messages.CodeHeld)
	require.LessOrEqual(t, b.sent(isLogGet), 10)
	b.proxy.Decide(nil)
	b.proxy.Passed(nil)
	b.clock.Advance(span)
	all("")
	require.Equal(t, 1, b.sent(isLogPut))
}

// hang lets the requests that match hang until the test ends, and the others pass.
func hang(t *testing.T, n node, match func(*http.Request) bool) {
	gate := make(chan struct{})
	t.Cleanup(func() { close(gate) })
	n.proxy.Decide(func(r *http.Request) s3test.Fate {
		if match(r) {
			<-gate
			return s3test.LoseAsked
		}
		return s3test.Pass
	})
}

func first(match func(*http.Request) bool) func(*http.Request) bool {
	var once sync.Once
	return func(r *http.Request) (yes bool) {
		if match(r) {
			once.Do(func() { yes = true })
		}
		return yes
	}
}

// All of a log's leases wait for one request. If its answer does not come, it is sent again before any caller gives up.
func TestAnAnswerThatDoesNotComeFencesNobody(t *testing.T) {
	t.Parallel()
	n := nodeOn(t, s3test.Start(t), "a")
	key := storetest.NewKey()
	n.acquire(key)
	hang(t, n, first(isLogPut))
	ctx, cancel := context.WithTimeout(t.Context(), span/2)
	defer cancel()
	_, err := n.Renew(ctx, key, "a", 1, span)
	require.NoError(t, err)
}

// Renewals of many are answered together. One that cannot be written is given up before the callers of the others give up.
func TestARecordThatCannotBeWrittenHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	n := nodeOn(t, s3test.Start(t), "a")
	stuck, other := storetest.NewKey(), storetest.NewKey()
	n.acquire(stuck)
	n.acquire(other)
	hang(t, n, isRecordPut)
	ctx, cancel := context.WithTimeout(t.Context(), span/2)
	defer cancel()
	results, err := n.RenewMany(ctx, []stores.Renewal{{Key: stuck, Owner: "a", Epoch: 1, TTL: 2 * span}, {Key: other, Owner: "a", Epoch: 1, TTL: span}})
	require.NoError(t, ctx.Err(), "it took so long that every caller has given up")
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, messages.ErrUnavailable)
	require.NoError(t, results[1].Err)
}

// Opens of many tenants on a slow server take all the room that there is for requests; renewals do not wait for it.
func TestRenewalsDoNotWaitForOpens(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	n := nodeOn(t, server, "a")
	key := storetest.NewKey()
	n.acquire(key)
	arrived := make(chan struct{}, 100)
	opens := func(r *http.Request) bool {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/leases/") {
			arrived <- struct{}{}
			return true
		}
		return false
	}
	hang(t, n, opens)
	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	for range 100 {
		group.Go(func() error {
			_, err := n.Acquire(ctx, storetest.NewKey(), "a", span)
			if messages.CodeOf(err) != messages.CodeUnavailable {
				return fmt.Errorf("%w", err)
			}
			return nil
		})
	}
	for range 64 {
		<-arrived
	}
	renewing, stop := context.WithTimeout(t.Context(), span/2)
	defer stop()
	_, err := n.Renew(renewing, key, "a", 1, span)
	require.NoError(t, err)
	cancel()
	require.NoError(t, group.Wait())
}
