package loglimit_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/loglimit"
)

// flood logs many texts at one place, which inlining would make several of.
//
//go:noinline
func flood(log *slog.Logger, n int) {
	for i := range n {
		log.Warn(fmt.Sprintf("a stranger says %d", i))
	}
}

func TestEachPlaceWritesAFewLines(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	log := slog.New(loglimit.New(slog.NewTextHandler(&out, nil), func() time.Time { return now }))
	other := log.With("a", 1)
	flood(log, 1000)
	require.Equal(t, loglimit.Burst, strings.Count(out.String(), "\n"))
	other.Warn("another place")
	require.Contains(t, out.String(), "another place")
	log.Debug("not enabled")
	out.Reset()
	now = now.Add(loglimit.Period - 1)
	flood(log, 1)
	require.Empty(t, out.String())
	now = now.Add(1)
	flood(log, 1)
	require.Contains(t, out.String(), fmt.Sprintf("suppressed=%d", 1000-loglimit.Burst+1))
	out.Reset()
	flood(log, 1)
	require.NotContains(t, out.String(), "suppressed")
}
