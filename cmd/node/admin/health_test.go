package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/admin"
	"github.com/leasehold/leasehold/messages"
)

// What a node answers is the test of package api; here it is what the command makes of it.
func TestHealth(t *testing.T) {
	var asked string
	var refusal *messages.Error
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked = r.URL.Path; refusal != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_ = json.NewEncoder(w).Encode(refusal)
			return
		}
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	}))
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	run := func(c admin.Health) (string, error) {
		var out bytes.Buffer
		err := c.Run(t.Context(), &admin.Env{Stdout: &out})
		return out.String(), err
	}
	for _, listen := range []string{"127.0.0.1:" + port, "0.0.0.0:" + port, ":" + port, "localhost:" + port} {
		out, err := run(admin.Health{Listen: listen, Timeout: time.Minute})
		require.NoError(t, err, listen)
		require.Equal(t, "{\"status\":\"ok\"}\n", out)
		require.Equal(t, "/healthz", asked)
	}
	refusal = &messages.Error{Code: messages.CodeDraining, Message: "the node is shutting down"}
	_, err = run(admin.Health{Listen: ":" + port, Timeout: time.Minute, Ready: true})
	require.ErrorIs(t, err, messages.ErrDraining)
	require.Equal(t, "/readyz", asked)
	refusal = &messages.Error{} // no code: not a node's error document
	_, err = run(admin.Health{Listen: ":" + port, Timeout: time.Minute})
	require.ErrorIs(t, err, messages.ErrUnavailable)

	for _, bad := range []string{"", "x", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0"} {
		_, err := run(admin.Health{Listen: bad, Timeout: time.Minute})
		require.ErrorIs(t, err, messages.ErrInvalidArgument, bad)
	}
	s.Close()
	_, err = run(admin.Health{Listen: ":" + port, Timeout: time.Minute})
	require.ErrorIs(t, err, messages.ErrUnavailable)
}

// A node that takes the connection and says nothing is not well.
func TestHealth_HasATimeout(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	err = (&admin.Health{Listen: l.Addr().String(), Timeout: 50 * time.Millisecond}).Run(t.Context(), &admin.Env{})
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
