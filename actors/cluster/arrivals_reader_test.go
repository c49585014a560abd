package cluster_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/messages"
)

// said sends a message of a move to a member and returns its answer.
func (f *fleet) said(p *part, kind, from string, key messages.Key, most time.Duration) string {
	f.t.Helper()
	subjects, err := client.NewSubjects("")
	require.NoError(f.t, err)
	data, err := json.Marshal(map[string]any{"kind": kind, "from": from, "key": key, "most_ms": most.Milliseconds()})
	require.NoError(f.t, err)
	answer, err := f.connect().Request(subjects.Member(p.node.Owner()), data, time.Minute)
	require.NoError(f.t, err)
	return string(answer.Data)
}

// A member that dies in the middle of a move must not keep its tenants from being served for as long as a move may take.
func TestNobodyWaitsForATenantWhoseOwnerDied(t *testing.T) {
	f := newFleet(t)
	patient := func(_ *actors.Config, c *cluster.Config) { c.MoveTimeout = time.Minute }
	a, b := f.join("a", patient), f.join("b", patient)
	f.see(2, a, b)
	require.Equal(t, "{}", f.said(b, "expect", a.node.Owner(), f.key(1), time.Minute))
	h, ctx, begun := f.tenant(b, 1), within(t, time.Minute), make(chan error, 1)
	go func() {
		_, err := h.Append(ctx, messages.Event{Kind: "k", IdemKey: "1"})
		begun <- err
	}()
	a.kill()
	select {
	case err := <-begun:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("it still waits for a member that is dead")
	}
}

func TestAMoveThatAMemberDoesNotKnowIsRefused(t *testing.T) {
	f := newFleet(t)
	a := f.join("a")
	require.Contains(t, f.said(a, "swap", "x", f.key(1), time.Second), string(messages.CodeInvalidArgument))
}

// It agreed to take the tenant, and began to leave before it could.
func TestAMemberThatLeavesTakesNothing(t *testing.T) {
	f := newFleet(t)
	a, b := f.join("a"), f.join("b")
	f.see(2, a, b)
	require.Equal(t, "{}", f.said(b, "expect", a.node.Owner(), f.key(1), time.Minute))
	require.NoError(t, b.Leave(within(t, time.Minute)))
	require.Equal(t, "{}", f.said(b, "take", a.node.Owner(), f.key(1), time.Minute))
	for n := range 3 {
		_, err := f.tenant(f.client(), 1).Append(within(t, time.Minute), messages.Event{Kind: "k", IdemKey: fmt.Sprint(n)})
		require.NoError(t, err)
	}
	require.False(t, b.node.Has(f.key(1)))
	require.True(t, a.node.Has(f.key(1)))
}
