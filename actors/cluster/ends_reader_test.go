package cluster_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// A second signal ends a node at once, in the middle of whatever its membership is doing.
func TestAMemberMayBeClosedInTheMiddleOfLeaving(t *testing.T) {
	f := newFleet(t)
	a, b := f.join("a", quick), f.join("b", quick)
	f.see(2, a, b)
	for i := range 20 {
		_, err := f.tenant(a, i).Append(within(t, time.Minute), messages.Event{Kind: "k", IdemKey: "1"})
		require.NoError(t, err)
	}
	ctx := within(t, 2*time.Minute)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { _ = a.Leave(ctx) }) // what could not be moved any more is an error
	}
	all.Go(func() { _ = a.Depart(ctx) })
	all.Go(func() { _ = a.node.Abort() })
	for range 2 {
		all.Go(func() { _ = a.Close() })
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("something waits for ever")
	}
	f.see(1, b)
	for i := range 20 {
		_, err := f.tenant(b, i).Append(within(t, time.Minute), messages.Event{Kind: "k", IdemKey: "2"})
		require.NoError(t, err)
	}
}
