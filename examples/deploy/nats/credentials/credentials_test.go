package credentials_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/examples/deploy/nats/credentials"
	"github.com/leasehold/leasehold/messages"
)

func Example() {
	folder, err := os.MkdirTemp("", "credentials-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	fmt.Println(credentials.Plan{Servers: []string{"nats-1"}, Clients: []string{"app"}}.Write(folder))
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(folder, path)
			fmt.Println(path)
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// <nil>
	// authorities/ca.key
	// authorities/ca.pem
	// authorities/routes-ca.key
	// authorities/routes-ca.pem
	// clients/app/ca.pem
	// clients/app/client.key
	// clients/app/client.nk
	// clients/app/client.pem
	// servers/nats-1/ca.pem
	// servers/nats-1/public.conf
	// servers/nats-1/routes-ca.pem
	// servers/nats-1/server.key
	// servers/nats-1/server.pem
	// servers/nats-1/server.routes.key
	// servers/nats-1/server.routes.pem
}

// read returns a certificate of the folder.
func read(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"))
	require.NoError(t, err)
	return pair.Leaf
}

func TestWrite_MakesWhatEachMayBe(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "new"), time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC)
	plan := credentials.Plan{Servers: []string{"nats-1"}, Hosts: []string{"10.0.0.1", "nats.example"}, Clients: []string{"app"}, Valid: 48 * time.Hour,
		Now: func() time.Time { return now }}
	require.NoError(t, plan.Write(dir))
	pool := func(name string) *x509.CertPool {
		p := x509.NewCertPool()
		p.AddCert(read(t, dir, name))
		return p
	}
	good := func(name, ca, host string, usage x509.ExtKeyUsage, at time.Time) error {
		_, err := read(t, dir, name).Verify(x509.VerifyOptions{DNSName: host, Roots: pool(ca), KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: at})
		return err
	}
	server, client := x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	for _, host := range []string{"nats-1", "10.0.0.1", "nats.example"} {
		require.NoError(t, good("servers/nats-1/server", "authorities/ca", host, server, now))
		require.NoError(t, good("servers/nats-1/server.routes", "authorities/routes-ca", host, server, now))
	}
	require.NoError(t, good("servers/nats-1/server.routes", "authorities/routes-ca", "", client, now))
	require.NoError(t, good("clients/app/client", "authorities/ca", "", client, now))
	require.NoError(t, good("clients/app/client", "authorities/ca", "", client, now.Add(47*time.Hour)))

	require.Error(t, good("servers/nats-1/server", "authorities/ca", "nats-2", server, now))
	require.Error(t, good("clients/app/client", "authorities/ca", "", server, now), "a client cannot pose as a server")
	require.Error(t, good("servers/nats-1/server", "authorities/ca", "", client, now), "nor a server as a client")
	require.Error(t, good("clients/app/client", "authorities/routes-ca", "", client, now), "nor a client as a route")
	require.Error(t, good("servers/nats-1/server", "authorities/routes-ca", "nats-1", server, now))
	require.Error(t, good("clients/app/client", "authorities/ca", "", client, now.Add(49*time.Hour)))

	for name, mode := range map[string]os.FileMode{"clients/app/client.nk": 0o600, "clients/app/client.key": 0o600, "authorities/ca.key": 0o600,
		"authorities/routes-ca.key": 0o600, "servers/nats-1/server.key": 0o600, "servers/nats-1/server.routes.key": 0o600, "clients": 0o700, "clients/app": 0o700, "servers/nats-1": 0o700} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
}

// A second call adds, and leaves what is in use.
func TestWrite_KeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	content := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(data)
	}
	require.NoError(t, credentials.Plan{Servers: []string{"nats-1"}, Clients: []string{"node-a"}}.Write(dir))
	before := []string{content("authorities/ca.pem"), content("clients/node-a/client.pem"), content("clients/node-a/client.nk"), content("servers/nats-1/server.pem")}
	public := content("servers/nats-1/public.conf")
	require.NoError(t, credentials.Plan{Servers: []string{"nats-2"}, Clients: []string{"node-a", "node-b"}}.Write(dir))
	require.Equal(t, before, []string{content("authorities/ca.pem"), content("clients/node-a/client.pem"), content("clients/node-a/client.nk"),
		content("servers/nats-1/server.pem")})
	for _, server := range []string{"nats-1", "nats-2"} {
		now := content("servers/" + server + "/public.conf")
		require.Contains(t, now, public)
		require.Contains(t, now, "NODE_B_NKEY: U")
		require.NotContains(t, now, before[2])
	}
	require.NoError(t, read(t, dir, "clients/node-b/client").CheckSignatureFrom(read(t, dir, "authorities/ca")))
}

func TestWrite_RefusesWhatCannotWork(t *testing.T) {
	for name, plan := range map[string]credentials.Plan{
		"a path":             {Clients: []string{"../x"}},
		"nothing":            {Servers: []string{""}},
		"upper case":         {Clients: []string{"Node"}},
		"a name twice":       {Servers: []string{"a", "a"}},
		"a variable twice":   {Clients: []string{"a-b", "a.b"}},
		"a time in the past": {Valid: -1},
	} {
		dir := filepath.Join(t.TempDir(), "none")
		require.ErrorIs(t, plan.Write(dir), messages.ErrInvalidArgument, name)
		require.NoDirExists(t, dir, name)
	}
	dir := t.TempDir()
	require.NoError(t, credentials.Plan{Clients: []string{"x"}}.Write(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "clients/x/client.nk"), []byte("hunter2"), 0o600))
	err := credentials.Plan{}.Write(dir)
	require.ErrorIs(t, err, messages.ErrCorrupt)
	require.NotContains(t, err.Error(), "hunter2")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "authorities/ca.pem"), []byte("x"), 0o600))
	require.ErrorIs(t, credentials.Plan{}.Write(dir), messages.ErrCorrupt)
	require.ErrorIs(t, credentials.Plan{}.Write(filepath.Join(dir, "authorities/ca.pem")), messages.ErrStorage)
}
