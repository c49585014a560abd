package engines_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/storeurl/engines"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

// One URL opens the leases, the copies and the connection of a cluster's members.
func TestNATSConn_TakesTheURLOfAStore(t *testing.T) {
	s, err := natsserver.Start(t.Context(), natsserver.Config{Dir: t.TempDir(), Configure: func(o *server.Options) {
		o.Username, o.Password = "u", "p@ss:w/o?r#d"
	}})
	require.NoError(t, err)
	defer s.Shutdown()
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("p@ss:w/o?r#d\n"), 0o600))
	host := s.NATS().Addr().String()
	for _, url := range []string{
		"nats://u:p%40ss%3Aw%2Fo%3Fr%23d@" + host + "?sync=always&cluster=mine&replicas=1&keep_entries=9",
		"nats://u@" + host + "," + host + "?cluster=mine&separate_hosts=true&chunk_bytes=65536&domain=d&password_file=" + password,
	} {
		cfg, cluster, err := engines.NATSConn(url)
		require.NoError(t, err)
		require.Equal(t, "mine", cluster)
		nc, err := cfg.Connect(t.Context())
		require.NoError(t, err)
		nc.Close()
	}

	cfg, cluster, err := engines.NATSConn("nats://" + host)
	require.NoError(t, err, "nothing is stored, so nothing need be said about fsync")
	require.Empty(t, cluster)
	_, err = cfg.Connect(t.Context())
	require.ErrorIs(t, err, messages.ErrUnavailable, "without the password")
}

func TestNATSConn_RefusesWhatCannotWork(t *testing.T) {
	for url, why := range map[string]string{
		"":                                      "nats://HOST",
		"mysql://u:hunter2@h/d":                 "nats://HOST",
		"nats:h":                                "nats://",
		"nats://":                               "names no host",
		"nats://hunter2@h":                      "without a password",
		"nats://u:hunter2@h?cluser=x":           "unknown parameters: cluser",
		"nats://u:hunter2@h?sync=never":         "sync",
		"nats://u:hunter2@h?replicas=2":         "replicas",
		"nats://u:hunter2@h?ca_file=/no/such":   "ca_file",
		"nats://u:hunter2@:4222":                "HOST",
		"nats://u:hunter2@h?chunk_bytes=little": "chunk_bytes",
	} {
		_, _, err := engines.NATSConn(url)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, url)
		require.ErrorContains(t, err, why, url)
		require.NotContains(t, err.Error(), "hunter2", url)
	}
}
