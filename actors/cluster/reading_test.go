package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

// No member acquires a tenant that there is not to answer a reading of it, whoever is asked, however often, hedges
// included.
func TestQ2_AReadingOfAnUnknownTenantIsNotActedOnByAnyMember(t *testing.T) {
	f := newFleet(t)
	a, b, c := f.join("a"), f.join("b"), f.join("c")
	f.see(3, a, b, c)
	eager := f.client(func(c *client.Config) { c.HedgeAfter = time.Nanosecond })
	ctx := within(t, time.Minute)
	forgotten := f.tenant(a, 0)
	_, err := forgotten.Append(ctx, messages.Event{Kind: "k"})
	require.NoError(t, err)
	require.NoError(t, forgotten.Forget(ctx))
	for i := range 6 { // spread over the members; the first one was forgotten
		granted := len(f.grants(i))
		for _, via := range []interface {
			Tenant(messages.OrgID, messages.TenantID) (*client.Tenant, error)
		}{a, b, c, eager} {
			h := f.tenant(via, i)
			_, err := h.Query(ctx, "SELECT 1")
			require.ErrorIs(t, err, messages.ErrUnknownTenant)
			_, _, err = h.Events(ctx, 0, 1)
			require.ErrorIs(t, err, messages.ErrUnknownTenant)
			_, err = h.Snapshot(ctx)
			require.ErrorIs(t, err, messages.ErrUnknownTenant)
			require.ErrorIs(t, h.Handoff(ctx), messages.ErrUnknownTenant)
			require.ErrorIs(t, h.Abandon(ctx), messages.ErrUnknownTenant)
			require.ErrorIs(t, h.Forget(ctx), messages.ErrUnknownTenant)
		}
		require.Len(t, f.grants(i), granted, "no lease")
		if i > 0 {
			names, err := f.durable.List(ctx, f.key(i).Prefix())
			require.NoError(t, err)
			require.Empty(t, names, "no object")
		}
		// What exists and is closed is opened by a reading.
		_, err := f.tenant(eager, i).Append(ctx, messages.Event{Kind: "k"})
		require.NoError(t, err)
		require.NoError(t, f.tenant(b, i).Handoff(ctx))
		events, _, err := f.tenant(c, i).Events(ctx, 0, 10)
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.Len(t, f.grants(i), granted+2)
	}
}
