package run

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/drill/verify"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// A fault that no byte has met proves nothing, so that its step fails; and the record says what was hit.
func TestAStepThatHitsNothingFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drill.jsonl")
	log, err := record.Create(path, "drill")
	require.NoError(t, err)
	f := newFleet(Options{}, replica.Config{}, nil, log, func(string, ...any) {})
	_, wire, err := engine.Servers{}.Connect(engine.Stores{})
	require.NoError(t, err)
	err = f.disturb(t.Context(), Slow, "", []*engine.Wire{wire}, func() error { return nil })
	require.ErrorContains(t, err, "hit nothing")
	require.NotErrorIs(t, err, errTimeout, "it is no finding about the system")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.disturb(ended, Slow, "", nil, func() error { return sleep(ended, stormTakes) }), context.Canceled)
	require.NoError(t, log.Close())

	lines, err := record.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, lines, 4)
	for i, l := range lines {
		require.Equal(t, record.Action, l.Kind)
		require.Equal(t, string(Slow), l.Text)
		require.Equal(t, []string{verify.OpWire, verify.OpWireEnd}[i%2], l.Op)
		require.Equal(t, i%2 == 1, l.Hits != nil)
	}
}

// Each step has faults of its own, and nothing else has any.
func TestFaultsOfSteps(t *testing.T) {
	seen := map[servers.Faults]Step{}
	for s := range costs {
		faults := s.faults(0)
		require.Equal(t, s.hitsWire(), faults != servers.Faults{}, "%s", s)
		if s.hitsWire() {
			require.NotContains(t, seen, faults, "%s", s)
			seen[faults] = s
		}
	}
	require.Greater(t, slowMax+slowMin, replica.TTL-replica.Margin-replica.RenewEvery, "two slow answers can use a window up")
	require.Greater(t, cutOff, replica.TTL)
}
