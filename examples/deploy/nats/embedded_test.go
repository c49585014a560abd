package nats_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/examples/deploy/nats/credentials"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

// embedded.conf, as it is, in three servers as `node run --nats-embedded` runs them: they accept it for an address that
// others can reach, find each other over TLS, and let in who is to come in.
func TestEmbeddedConfiguration(t *testing.T) {
	d := &deployment{secrets: filepath.Join(t.TempDir(), "credentials")}
	names := []string{"node-1", "node-2", "node-3"}
	plan := credentials.Plan{Servers: names, Hosts: []string{"127.0.0.1"}, Clients: []string{"node-a", "node-b", "node-c", "app", "billing", "operator"},
		Valid: time.Hour}
	require.NoError(t, plan.Write(d.secrets))
	ports := freePorts(t, 2*len(names))
	var routes []string
	for i := range names {
		routes = append(routes, fmt.Sprintf("127.0.0.1:%d", ports[i]))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, name := range names {
		folder := d.layOut(t, name)
		t.Chdir(folder) // the paths in the file are those of the process
		config := natsserver.Config{Dir: filepath.Join(folder, "data"), Name: name, Host: "0.0.0.0", Port: ports[len(names)+i], ClusterName: "leasehold",
			ClusterHost: "0.0.0.0", ClusterPort: ports[i], Routes: routes, ConfigFile: "embedded.conf"}
		require.NoError(t, config.Check())
		open := config
		open.ConfigFile = ""
		require.ErrorIs(t, open.Check(), messages.ErrInvalidArgument, "without the file, everybody would come in")
		config.Host, config.ClusterHost = "127.0.0.1", "127.0.0.1"
		s, err := natsserver.Start(ctx, config)
		require.NoError(t, err, name)
		t.Cleanup(s.Shutdown)
		d.servers = append(d.servers, s)
	}
	for _, s := range d.servers {
		require.NoError(t, s.Ready(ctx))
	}
	leases, err := nats.OpenLeases(ctx, d.store("node-a"))
	require.NoError(t, err)
	require.NoError(t, leases.Close())
	for name, change := range map[string]func(*nats.Config){
		"an app":   func(c *nats.Config) { c.NKeyFile = d.file("app", "client.nk") },
		"nobody":   func(c *nats.Config) { c.NKeyFile = "" },
		"no proof": func(c *nats.Config) { c.CertFile, c.KeyFile = "", "" },
	} {
		config := d.store("node-b")
		config.Timeout = time.Second
		change(&config)
		_, err := nats.OpenLeases(ctx, config)
		require.ErrorIs(t, err, messages.ErrUnavailable, name)
	}
}
