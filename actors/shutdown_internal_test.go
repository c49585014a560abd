package actors

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

func TestAShutdownOfANodeWhoseSupervisorFailedReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Start(t.Context(), Config{StateRoot: t.TempDir(), NodeName: "n", Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		n.supervisor.Stop() // as a panic of it does
		require.ErrorIs(t, n.Shutdown(t.Context()), messages.ErrInternal)
	})
}
