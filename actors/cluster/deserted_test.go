package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// one is a request to append an event.
func one(f *fleet, tenant int) *messages.Request {
	return &messages.Request{Action: messages.ActionAppend, Key: f.key(tenant), Events: []messages.Event{{Kind: "one"}}}
}

// H7 in a cluster whose members all end: a request that came in on one of them, and that nobody can carry out any
// more, is told so at once. It waits for no deadline, and holds up no process that ends.
func TestH7_ARequestIsNotKeptWaitingWhenEveryMemberLeaves(t *testing.T) {
	f := newFleet(t)
	a := f.join("a")
	require.Nil(t, a.Do(t.Context(), one(f, 0)).Error)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, a.Leave(ctx))
	require.NoError(t, a.node.Shutdown(ctx))

	answered := make(chan *messages.Reply, 1)
	go func() { answered <- a.Do(ctx, one(f, 0)) }()
	require.NoError(t, a.Depart(ctx))
	select {
	case reply := <-answered:
		require.ErrorIs(t, reply.Error, messages.ErrDraining)
	case <-time.After(time.Minute):
		t.Fatal("the request waits for its deadline, two minutes")
	}
	require.ErrorIs(t, a.Do(ctx, one(f, 0)).Error, messages.ErrDraining)
	require.NoError(t, a.Close())
}

// As long as another member serves, a departed one sends requests on.
func TestH7_ADepartedMemberSendsRequestsOn(t *testing.T) {
	f := newFleet(t)
	a, b := f.join("a"), f.join("b")
	f.see(2, a, b)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, a.Leave(ctx))
	require.NoError(t, a.node.Shutdown(ctx))
	require.NoError(t, a.Depart(ctx))
	f.see(1, b)
	for i := range 5 {
		reply := a.Do(ctx, one(f, i))
		require.Nil(t, reply.Error)
		require.Equal(t, b.node.Owner(), reply.Owner)
	}
	require.NoError(t, a.Close())
}
