package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/messages"
)

// served returns a tenant that a member serves.
func (f *fleet) served(p *part, tenants int) int {
	f.t.Helper()
	for i := range tenants {
		h := f.tenant(f.client(), i)
		_, err := h.Append(within(f.t, time.Minute), messages.Event{Kind: "k"})
		require.NoError(f.t, err)
		if p.node.Has(f.key(i)) {
			return i
		}
	}
	f.t.Fatal("it serves none")
	return 0
}

// A request that was under way when a tenant left, or a member that was given up too early, may have made this one
// open it again.
func TestAMemberThatServesATenantDoesNotSendItsCallersAway(t *testing.T) {
	f := newFleet(t)
	a, b := f.join("a"), f.join("b")
	f.see(2, a, b)
	i := f.served(a, 20)
	a.Remember(f.key(i), b.node.Owner())
	_, err := f.tenant(f.client(), i).Append(within(t, 3*time.Second), messages.Event{Kind: "k", IdemKey: "1"})
	require.NoError(t, err)
	_, err = f.tenant(b, i).Append(within(t, 3*time.Second), messages.Event{Kind: "k", IdemKey: "2"})
	require.NoError(t, err)
	require.Len(t, f.grants(i), 1)
}

// A tenant that was handed to a member which left before it took it: nobody has it, and everybody must agree on that.
func TestATenantThatWasHandedToAMemberThatLeavesIsNotSentInCircles(t *testing.T) {
	f := newFleet(t)
	a, b := f.join("a"), f.join("b")
	f.see(2, a, b)
	i := f.served(a, 20)
	require.NoError(t, b.Leave(within(t, time.Minute)))
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(a.Members(), func(i cluster.Info) bool { return i.State == cluster.StateLeaving })
	}, time.Minute, time.Millisecond)
	a.Remember(f.key(i), b.node.Owner())
	require.NoError(t, a.node.Move(within(t, time.Minute), f.key(i), b.node.Owner()))
	for n := range 3 {
		_, err := f.tenant(f.client(), i).Append(within(t, 3*time.Second), messages.Event{Kind: "k", IdemKey: fmt.Sprint(n)})
		require.NoError(t, err)
	}
	require.Len(t, f.grants(i), 2)
}
