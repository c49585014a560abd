package natsserver_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

// A server that is the first of its cluster meets nobody yet, which is no error.
func TestTheFirstAttemptToReachAnotherServerIsNoError(t *testing.T) {
	text := &log{}
	cfg := members(t)[0]
	cfg.Logger = natsserver.NewLogger(slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s, err := natsserver.Start(t.Context(), cfg)
	require.NoError(t, err)
	defer s.Shutdown()
	require.Eventually(t, func() bool { return strings.Contains(text.String(), "Error trying to connect to route (attempt 1)") }, time.Minute, 10*time.Millisecond)
	require.NotContains(t, text.String(), "level=ERROR")
}
