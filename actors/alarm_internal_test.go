package actors

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

func TestAlarmsStandUntilTheyAreClearedOrNobodyRaisesThem(t *testing.T) {
	now := time.Unix(1000, 0)
	a := newAlarms(func() time.Time { return now })
	reg := prometheus.NewRegistry()
	require.NoError(t, reg.Register(a))
	shown := func() map[string]float64 {
		t.Helper()
		families, err := reg.Gather()
		require.NoError(t, err)
		require.Len(t, families, 1)
		out := make(map[string]float64)
		for _, m := range families[0].Metric {
			out[m.Label[0].GetValue()] = m.Gauge.GetValue()
		}
		return out
	}
	require.Len(t, shown(), len(alarmCodes))
	require.Zero(t, shown()["lineage_ahead"], "a code without an alarm is shown as 0")

	node := &messages.Error{Code: messages.CodeStorage}
	tenant := &messages.Error{Code: messages.CodeLineageAhead, Key: "acme/t-1"}
	require.True(t, a.raise(tenant))
	require.True(t, a.raise(node))
	now = now.Add(alarmFor)
	require.False(t, a.raise(tenant), "it stands already")
	require.Equal(t, []Alarm{
		{Err: node, Since: time.Unix(1000, 0), seen: time.Unix(1000, 0)},
		{Err: tenant, Since: time.Unix(1000, 0), seen: now},
	}, a.list())
	require.Equal(t, 1.0, shown()["lineage_ahead"])
	require.Equal(t, 1.0, shown()["storage"])

	now = now.Add(alarmFor + 1)
	require.Len(t, a.list(), 1, "a tenant's ends when nobody raises it, the node's does not")
	require.False(t, a.clear(tenant.Code, tenant.Key))
	require.True(t, a.clear(node.Code, ""))
	require.Empty(t, a.list())

	for i := range maxAlarms + 5 {
		a.raise(&messages.Error{Code: messages.CodeCorrupt, Key: string(rune(i))})
	}
	require.Len(t, a.list(), maxAlarms)
	a.raise(node)
	require.Len(t, a.list(), maxAlarms+1, "there is always room for the node's own")
}
