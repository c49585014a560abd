package natsserver_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// certificate writes the certificate of httptest, which is its own authority.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	certFile = file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	return certFile, file(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}

const users = "authorization { user: leasehold, password: hunter2-of-the-nats }\n"

// What this package promises is set over the file; the rest of the file counts.
func TestConfigFile_GivesWayWhereThePackagePromises(t *testing.T) {
	dir := t.TempDir()
	s, err := natsserver.Start(t.Context(), natsserver.Config{Dir: dir, Name: "node-a", ConfigFile: file(t, users+`
		server_name: other
		listen: "0.0.0.0:1"
		max_connections: 77
		jetstream { store_dir: "/no/such/folder", sync_interval: 1h, max_file: 1GB }
	`)})
	require.NoError(t, err)
	defer s.Shutdown()
	require.NoError(t, s.Join(t.Context(), nil))
	js := s.NATS().JetStreamConfig()
	require.True(t, js.SyncAlways)
	require.Equal(t, filepath.Join(dir, "jetstream"), js.StoreDir)
	require.EqualValues(t, 1<<30, js.MaxStore)
	require.Equal(t, "node-a", s.NATS().Name())
	require.Contains(t, s.URL(), "127.0.0.1:")

	_, err = nats.Connect(s.URL())
	require.ErrorIs(t, err, nats.ErrAuthorization)
	nc, err := nats.Connect(s.URL(), nats.UserInfo("leasehold", "hunter2-of-the-nats"))
	require.NoError(t, err)
	defer nc.Close()
	require.EqualValues(t, natsserver.MinPayload, nc.MaxPayload())
	varz, err := s.NATS().Varz(nil)
	require.NoError(t, err)
	require.Equal(t, 77, varz.MaxConn)
	require.Error(t, s.NATS().Reload(), "a reload would take the file's folder and ports")
}

// Nobody reaches a server from another machine without proving who he is, and nothing is started to find that out.
func TestCheck_RefusesWhatStrangersCouldEnter(t *testing.T) {
	cert, key := certificate(t)
	tls := func(more string) string {
		return fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q%s }\n", cert, key, cert, more)
	}
	cluster := natsserver.Config{ClusterName: "c", ClusterPort: 6222, Routes: []string{"a:6222", "b:6222", "c:6222"}}
	abroad := cluster
	abroad.ClusterHost = "0.0.0.0"
	for name, c := range map[string]struct {
		cfg  natsserver.Config
		file string
		says string // "": it is fine
	}{
		"at home":                    {natsserver.Config{}, "", ""},
		"at home, by name":           {natsserver.Config{Host: "LocalHost"}, "", ""},
		"abroad, no file":            {natsserver.Config{Host: "0.0.0.0"}, "", "authorization"},
		"abroad, by name":            {natsserver.Config{Host: "localhost.example.com"}, "", "authorization"},
		"abroad, nothing in file":    {natsserver.Config{Host: "::"}, "max_connections: 5\n", "authorization"},
		"abroad, a user":             {natsserver.Config{Host: "0.0.0.0"}, users, ""},
		"abroad, a token":            {natsserver.Config{Host: "0.0.0.0"}, "authorization { token: abc }\n", ""},
		"abroad, accounts":           {natsserver.Config{Host: "10.0.0.1"}, "accounts { A { jetstream: enabled, users: [{user: a, password: b}] } }\n", ""},
		"abroad, but for anybody":    {natsserver.Config{Host: "0.0.0.0"}, "authorization { users: [{user: a, password: b}] }\nno_auth_user: a\n", "no_auth_user"},
		"abroad, TLS alone":          {natsserver.Config{Host: "0.0.0.0"}, tls(""), "verifies clients"},
		"abroad, mTLS":               {natsserver.Config{Host: "0.0.0.0"}, tls(", verify: true"), ""},
		"abroad, mTLS, but optional": {natsserver.Config{Host: "0.0.0.0"}, tls(", verify: true") + "allow_non_tls: true\n", "verifies clients"},
		"members at home":            {cluster, "", ""},
		"members abroad":             {abroad, "", "cluster port"},
		"members abroad, users":      {abroad, users, "cluster port"},
		"members abroad, a secret":   {abroad, "cluster { authorization { user: m, password: n } }\n", ""},
		"members abroad, mTLS":       {abroad, "cluster { " + tls("") + "}\n", ""},
		"alone, the file has others": {natsserver.Config{}, "cluster { name: c, listen: \"127.0.0.1:6222\", routes: [\"nats://a:1\"] }\n", "member of a cluster"},
		"small messages":             {natsserver.Config{}, "max_payload: 1MB\n", "max_payload"},
		"large messages":             {natsserver.Config{}, "max_payload: 9MB\n", ""},
		"not a file of NATS":         {natsserver.Config{}, "listen {{{\n", "configuration file"},
		"an unknown setting":         {natsserver.Config{}, "authorisation: {}\n", "configuration file"},
	} {
		c.cfg.Dir = filepath.Join(t.TempDir(), "nats")
		if c.file != "" {
			c.cfg.ConfigFile = file(t, c.file)
		}
		err := c.cfg.Check()
		require.NoDirExists(t, c.cfg.Dir)
		if c.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, messages.ErrInvalidArgument, name)
		require.ErrorContains(t, err, c.says, name)
		_, err = natsserver.Start(t.Context(), c.cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, name)
	}
	require.ErrorIs(t, natsserver.Config{Dir: "x", ConfigFile: "/no/such/file"}.Check(), messages.ErrInvalidArgument)
}

// Routes carry the secret of the cluster section, which all members have.
func TestConfigFile_MembersKnowEachOtherByTheirSecret(t *testing.T) {
	pool := file(t, "cluster { authorization { user: m, password: n } }\n")
	first := natsserver.Config{Dir: t.TempDir(), Name: "a", ClusterName: "c", ClusterPort: free(t), ConfigFile: pool}
	second := natsserver.Config{Dir: t.TempDir(), Name: "b", ClusterName: "c", ClusterPort: free(t), ConfigFile: pool}
	first.Routes = []string{addr(first.ClusterPort), addr(second.ClusterPort)}
	second.Routes = first.Routes
	stranger := second
	stranger.Dir, stranger.Name, stranger.ClusterPort = t.TempDir(), "x", free(t)
	stranger.ConfigFile = file(t, "cluster { authorization { user: m, password: guessed } }\n")
	servers := make([]*natsserver.Server, 3)
	for i, cfg := range []natsserver.Config{first, second, stranger} {
		var err error
		servers[i], err = natsserver.Start(t.Context(), cfg)
		require.NoError(t, err)
		defer servers[i].Shutdown()
	}
	require.ErrorIs(t, servers[2].Join(within(t, time.Second), slog.New(slog.DiscardHandler)), messages.ErrUnavailable)
	for _, s := range servers[:2] {
		require.NoError(t, s.Join(t.Context(), nil))
		require.Equal(t, 2, s.Status().Known)
		routes, err := s.NATS().Routez(nil)
		require.NoError(t, err)
		require.NotEmpty(t, routes.Routes)
		for _, r := range routes.Routes {
			require.NotEqual(t, "x", r.RemoteName, "it came in without the secret")
		}
	}
}

func TestStart_SaysThatAPortIsTaken(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	port := taken.Addr().(*net.TCPAddr).Port
	begun := time.Now()
	_, err = natsserver.Start(t.Context(), natsserver.Config{Dir: t.TempDir(), Port: port})
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorContains(t, err, "address already in use")

	s, err := natsserver.Start(t.Context(), natsserver.Config{Dir: t.TempDir(), ClusterName: "c", ClusterPort: port, Routes: []string{addr(port)}})
	if err == nil { // the cluster's port is listened on after the clients'
		err = s.Join(t.Context(), nil)
		s.Shutdown()
	}
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorContains(t, err, "address already in use")
	require.Less(t, time.Since(begun), time.Minute, "it is told, not waited for")
}

func TestNames_AreSafeAndKept(t *testing.T) {
	for name, safe := range map[string]bool{"node-1": true, "Node_1": true, "a.b": false, "ä": false, "": false, "a b": false, "a*": false, strings.Repeat("x", 65): false} {
		got := natsserver.SafeName(name)
		require.Equal(t, safe, got == name, name)
		require.Regexp(t, `\A[A-Za-z0-9_-]{1,64}\z`, got)
		require.Equal(t, got, natsserver.SafeName(got), "safe once, safe for ever")
	}
	require.NotEqual(t, natsserver.SafeName("a.b"), natsserver.SafeName("a,b"))

	dir := filepath.Join(t.TempDir(), "nats")
	for _, name := range []string{"first", "second"} {
		kept, err := natsserver.KeptName(dir, name)
		require.NoError(t, err)
		require.Equal(t, "first", kept)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server-name"), []byte("\x00\n"), 0o600))
	_, err := natsserver.KeptName(dir, "third")
	require.ErrorIs(t, err, messages.ErrCorrupt)
	_, err = natsserver.KeptName(file(t, ""), "name")
	require.ErrorIs(t, err, messages.ErrStorage)
}

// The server's own idea of ready is not confused by what Configure adds.
func TestConfigure_ComesLast(t *testing.T) {
	cfg := natsserver.Config{Dir: t.TempDir(), Host: "0.0.0.0", Configure: func(o *server.Options) { o.Authorization = "token" }}
	require.NoError(t, cfg.Check())
}
