package s3_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest"
)

// A renewal that comes between a contender's look and its first write wins, by whichever way it comes; so does one between
// its two writes.
func TestB2_ARenewalBetweenTheLookAndTheTakingWins(t *testing.T) {
	for _, way := range []struct {
		name   string
		ttl    time.Duration
		before func(*http.Request) bool
	}{
		{"by the log, before the revocation", span, isLogPut},
		{"by the record, before the revocation", 2 * span, isLogPut},
		{"by the record, before the record is written", 2 * span, isRecordPut},
		{"revoked, so by the record", span, isRecordPut},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			server := s3test.Start(t)
			a, b := nodeOn(t, server, "a"), nodeOn(t, server, "b")
			key := storetest.NewKey()
			a.acquire(key)
			lease := a.renew(key, 1)
			b.held(key, lease, span)
			b.clock.Advance(span)
			a.clock.Advance(span - 1)
			fired := false
			b.proxy.Decide(func(r *http.Request) s3test.Fate {
				if way.before(r) && !fired {
					fired = true
					var err error
					lease, err = a.Renew(t.Context(), key, "a", 1, way.ttl)
					if err != nil {
						t.Error(err)
					}
				}
				return s3test.Pass
			})
			_, err := b.Acquire(t.Context(), key, "b", span)
			require.ErrorIs(t, err, messages.ErrHeld)
			require.True(t, fired)
			require.Equal(t, lease, *messages.AsError(err).Lease)
			require.Equal(t, way.ttl, messages.AsError(err).RetryAfter)
			b.proxy.Decide(nil)
			a.clock.Advance(span - 1)
			a.renew(key, 1)
			a.renew(key, 1)
			a.proxy.Requests()
			a.renew(key, 1)
			require.Equal(t, 1, a.sent(anything), "it is renewed in a log again")
		})
	}
}

// The same within one process, where the log's writer is busy with the renewal when it is told to revoke.
func TestB2_ARenewalInFlightOfTheSameProcessWins(t *testing.T) {
	t.Parallel()
	a := nodeOn(t, s3test.Start(t), "a")
	key := storetest.NewKey()
	a.acquire(key)
	a.renew(key, 1)
	a.clock.Advance(span - 1)
	arrived, looked, gate := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a.proxy.Decide(func(r *http.Request) s3test.Fate {
		if isLogPut(r) {
			close(arrived)
			<-gate
			a.proxy.Decide(nil)
		}
		return s3test.Pass
	})
	a.proxy.Passed(func(r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/renewals/") {
			close(looked)
			a.proxy.Passed(nil)
		}
	})
	var lease messages.Lease
	var group errgroup.Group
	group.Go(func() (err error) {
		lease, err = a.Renew(t.Context(), key, "a", 1, span)
		return err
	})
	<-arrived
	a.clock.Advance(1) // the renewal was sent in time, and what it replaces is over
	group.Go(func() error {
		_, err := a.Acquire(t.Context(), key, "a2", span)
		if messages.CodeOf(err) != messages.CodeHeld {
			return fmt.Errorf("not held: %w", err)
		}
		return nil
	})
	<-looked
	close(gate)
	require.NoError(t, group.Wait())
	a.held(key, lease, span-1)
	a.renew(key, 1)
}

// halfway returns two nodes, and a key of which the first one holds the lease: renewed in its log, half a span ago.
func halfway(t *testing.T) (a, b node, key messages.Key) {
	server := s3test.Start(t)
	a, b, key = nodeOn(t, server, "a"), nodeOn(t, server, "b"), storetest.NewKey()
	a.acquire(key)
	a.renew(key, 1)
	a.clock.Advance(span / 2)
	return a, b, key
}

// The record is not written while a renewal in flight may still be granted.
func TestAForgetWaitsForTheRenewalInFlight(t *testing.T) {
	t.Parallel()
	a, b, key := halfway(t)
	arrived, gate := make(chan struct{}), make(chan struct{})
	a.proxy.Decide(func(r *http.Request) s3test.Fate {
		if isLogPut(r) {
			close(arrived)
			<-gate
		}
		return s3test.Pass
	})
	var group errgroup.Group
	group.Go(func() error {
		_, err := a.Renew(t.Context(), key, "a", 1, span)
		return err
	})
	<-arrived
	a.proxy.Requests()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.MarkForgotten(short, key, "a", 1), messages.ErrUnavailable)
	require.Zero(t, a.sent(isRecordPut))
	group.Go(func() error { return a.MarkForgotten(t.Context(), key, "a", 1) })
	close(gate)
	require.NoError(t, group.Wait())
	lease, _, err := b.Read(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, uint64(1), lease.Floor)
	b.held(key, lease, span) // and not half of it
	require.Equal(t, []string{"acquire a 1 0", "renew a 1 0", "renew a 1 0", "forget a 1 1"}, ops(t, b.Leases, key))
}

// While the record is being written, the lease is renewed in the log no more: nobody would look there after.
func TestARenewalWaitsForTheForgetInFlight(t *testing.T) {
	t.Parallel()
	a, b, key := halfway(t)
	arrived, gate := make(chan struct{}), make(chan struct{})
	firstPut := first(isRecordPut)
	a.proxy.Decide(func(r *http.Request) s3test.Fate {
		if firstPut(r) {
			close(arrived)
			<-gate
		}
		return s3test.Pass
	})
	var group errgroup.Group
	group.Go(func() error { return a.MarkForgotten(t.Context(), key, "a", 1) })
	<-arrived
	var lease messages.Lease
	renewing := make(chan struct{})
	group.Go(func() (err error) {
		defer close(renewing)
		lease, err = a.Renew(t.Context(), key, "a", 1, span)
		return err
	})
	select {
	case <-renewing:
		t.Error("it was renewed in the log")
	case <-time.After(300 * time.Millisecond): // for a request, if it may be sent
	}
	close(gate)
	require.NoError(t, group.Wait())
	require.Equal(t, uint64(1), lease.Floor)
	b.held(key, lease, span)
	require.Equal(t, []string{"acquire a 1 0", "renew a 1 0", "forget a 1 1", "renew a 1 1"}, ops(t, b.Leases, key))
}

// A read is never older than one before it: between its look at the record and its look at the log, the holder renews by
// the record, and the log leaves the old member out.
func TestAReadThatTheHolderOvertakesIsNotStale(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	a, b := nodeOn(t, server, "a"), nodeOn(t, server, "b")
	key, other := storetest.NewKey(), storetest.NewKey()
	a.acquire(key)
	a.acquire(other)
	for range 2 {
		a.clock.Advance(span / 2)
		a.renew(key, 1)
		a.renew(other, 1)
	}
	for what, read := range map[string]func() messages.Lease{
		"Read": func() messages.Lease {
			lease, ok, err := b.Read(t.Context(), key)
			require.NoError(t, err)
			require.True(t, ok)
			return lease
		},
		"Leases": func() messages.Lease {
			listed, err := b.Leases.Leases(t.Context(), "", 10)
			require.NoError(t, err)
			for _, lease := range listed {
				if lease.Key == key {
					return lease
				}
			}
			t.Fatal("not listed")
			return messages.Lease{}
		},
	} {
		before := read()
		var once sync.Once
		b.proxy.Decide(func(r *http.Request) s3test.Fate {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/renewals/") {
				once.Do(func() {
					_, err := a.Renew(t.Context(), key, "a", 1, 2*span)
					if err == nil {
						_, err = a.Renew(t.Context(), other, "a", 1, span)
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			return s3test.Pass
		})
		after := read()
		b.proxy.Decide(nil)
		require.False(t, after.End.Before(before.End), "%s: %v after %v", what, after.End, before.End)
		a.clock.Advance(span / 2)
		a.renew(key, 1)
		a.renew(key, 1)
	}
}
