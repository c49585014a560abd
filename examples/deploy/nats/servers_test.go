package nats_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/examples/deploy/nats/credentials"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deployment is three real servers that run nats-server.conf as it is, each in a folder laid out as the README says. Only
// what a machine has one of is changed: addresses, ports, and where the others are.
type deployment struct {
	secrets string // the folder of mkcredentials
	servers []*natsserver.Server
	options []*server.Options
}

var serverNames = []string{"nats-1", "nats-2", "nats-3"}

func deploy(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{secrets: filepath.Join(t.TempDir(), "credentials")}
	plan := credentials.Plan{Servers: serverNames, Hosts: []string{"127.0.0.1"},
		Clients: []string{"node-a", "node-b", "node-c", "app", "billing", "operator"}, Valid: time.Hour}
	require.NoError(t, plan.Write(d.secrets))
	for _, name := range serverNames {
		d.options = append(d.options, d.load(t, name))
	}
	ports, routes := freePorts(t, len(d.options)), []*url.URL{}
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	for i, o := range d.options {
		require.Len(t, o.Routes, len(routes), "as many servers as the first election counts with")
		o.Host, o.Port, o.HTTPPort = "127.0.0.1", server.RANDOM_PORT, 0
		o.Cluster.Host, o.Cluster.Port, o.Routes = "127.0.0.1", ports[i], routes
		o.NoSigs, o.NoLog = true, true
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, o := range d.options {
		s, err := natsserver.Start(ctx, natsserver.Config{Dir: o.StoreDir, Configure: func(into *server.Options) { *into = *o }})
		require.NoError(t, err, serverNames[i])
		t.Cleanup(s.Shutdown)
		d.servers = append(d.servers, s)
	}
	for _, s := range d.servers {
		require.NoError(t, s.Ready(ctx))
	}
	return d
}

// freePorts finds ports that nobody listens on.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close() // all at the end, so that no port is found twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// load reads the configuration in the folder of one server, as the server would.
func (d *deployment) load(t *testing.T, name string) *server.Options {
	t.Helper()
	folder := d.layOut(t, name)
	home, err := os.Getwd()
	require.NoError(t, err)
	t.Chdir(folder)
	t.Setenv("NATS_SERVER_NAME", name)
	options, err := server.ProcessConfigFile("nats-server.conf")
	require.NoError(t, err)
	require.Equal(t, name, options.ServerName)
	options.StoreDir = filepath.Join(folder, options.StoreDir)
	t.Chdir(home)
	return options
}

// layOut makes the folder of one server: the configuration, and the credentials that it may have.
func (d *deployment) layOut(t *testing.T, name string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, os.Symlink(filepath.Join(d.secrets, "servers", name), filepath.Join(folder, "credentials")))
	for _, file := range []string{"nats-server.conf", "embedded.conf", "users.conf"} {
		config, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), config, 0o600))
	}
	return folder
}

// file returns a file of a client.
func (d *deployment) file(client, name string) string {
	return filepath.Join(d.secrets, "clients", client, name)
}

// urls returns the addresses of all servers.
func (d *deployment) urls() string {
	urls := ""
	for i, s := range d.servers {
		if i > 0 {
			urls += ","
		}
		urls += "nats://" + s.NATS().Addr().String()
	}
	return urls
}

// store is how a node's stores are opened.
func (d *deployment) store(client string) nats.Config {
	return nats.Config{URL: d.urls(), Cluster: "prod", Replicas: 3, SyncAlways: true, Timeout: 10 * time.Second,
		CAFile: d.file(client, "ca.pem"), CertFile: d.file(client, "client.pem"), KeyFile: d.file(client, "client.key"), NKeyFile: d.file(client, "client.nk")}
}

// dial connects as a client, whose violations are in LastError after a Flush.
func (d *deployment) dial(t *testing.T, client string, options ...natsgo.Option) *natsgo.Conn {
	t.Helper()
	nkey, err := natsgo.NkeyOptionFromSeed(d.file(client, "client.nk"))
	require.NoError(t, err)
	nc, err := natsgo.Connect(d.urls(), append([]natsgo.Option{nkey, natsgo.RootCAs(d.file(client, "ca.pem")),
		natsgo.ClientCert(d.file(client, "client.pem"), d.file(client, "client.key")), natsgo.Timeout(10 * time.Second),
		natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {})}, options...)...)
	require.NoError(t, err, "%s cannot connect", client)
	t.Cleanup(nc.Close)
	return nc
}

// only is the address of one server.
func (d *deployment) only(i int) natsgo.Option {
	return func(o *natsgo.Options) error {
		o.Url, o.Servers, o.NoRandomize = "", []string{fmt.Sprintf("nats://%s", d.servers[i].NATS().Addr())}, true
		return nil
	}
}

// strangersPlan makes credentials with the same names, by other authorities.
func strangersPlan() credentials.Plan {
	return credentials.Plan{Clients: []string{"node-a"}, Valid: time.Hour}
}
