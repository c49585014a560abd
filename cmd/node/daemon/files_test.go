package daemon

import (
	"math"
	"net"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestBoundsOf(t *testing.T) {
	for _, tt := range []struct {
		files       uint64
		listeners   int
		asked, want bounds
	}{
		{0, 1, bounds{100, 100}, bounds{1, 1}},
		{64, 1, bounds{100, 100}, bounds{1, 1}},
		{256, 1, bounds{100, 100}, bounds{28, 48}},
		{1024, 1, bounds{100, 1000}, bounds{100, 240}},
		{1024, 1, bounds{10_000, 1000}, bounds{144, 240}},
		{1024, 2, bounds{10_000, 1000}, bounds{96, 240}},
		{16_384, 1, bounds{2000, 1000}, bounds{2000, 1000}},
		{math.MaxUint64, 2, bounds{10_000, 1000}, bounds{10_000, 1000}},
	} {
		require.Equal(t, tt.want, boundsOf(tt.files, tt.listeners, tt.asked), "%d files", tt.files)
	}
}

// end is one end of a connection.
func end(t *testing.T) net.Conn {
	a, b := net.Pipe()
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a
}

func TestConnections_WhichOneHasToGo(t *testing.T) {
	c, err := newConnections(3, prometheus.NewRegistry())
	require.NoError(t, err)
	active, idle, silent, newer := end(t), end(t), end(t), end(t)
	for _, conn := range []net.Conn{active, idle, silent} {
		require.Nil(t, c.note(conn, http.StateNew))
	}
	require.Nil(t, c.note(active, http.StateActive))
	require.Nil(t, c.note(idle, http.StateActive))
	require.Nil(t, c.note(idle, http.StateIdle))
	require.Equal(t, silent, c.note(newer, http.StateNew), "the one that says nothing, although another is older")
	require.Nil(t, c.note(silent, http.StateActive), "too late")
	require.Nil(t, c.note(newer, http.StateActive))
	next := end(t)
	require.Equal(t, idle, c.note(next, http.StateNew), "none that is in use")
	require.Nil(t, c.note(next, http.StateActive))
	last := end(t)
	require.Equal(t, last, c.note(last, http.StateNew), "all others are in use")
	require.Nil(t, c.note(active, http.StateClosed))
	require.Nil(t, c.note(end(t), http.StateNew), "there is room again")
}
