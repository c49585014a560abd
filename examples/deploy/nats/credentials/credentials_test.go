package credentials_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
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
	files, err := os.ReadDir(folder)
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		fmt.Println(f.Name())
	}
	// Output:
	// <nil>
	// app.key
	// app.nk
	// app.pem
	// ca.key
	// ca.pem
	// nats-1.key
	// nats-1.pem
	// nats-1.routes.key
	// nats-1.routes.pem
	// public.conf
	// routes-ca.key
	// routes-ca.pem
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
		require.NoError(t, good("nats-1", "ca", host, server, now))
		require.NoError(t, good("nats-1.routes", "routes-ca", host, server, now))
	}
	require.NoError(t, good("nats-1.routes", "routes-ca", "", client, now))
	require.NoError(t, good("app", "ca", "", client, now))
	require.NoError(t, good("app", "ca", "", client, now.Add(47*time.Hour)))

	require.Error(t, good("nats-1", "ca", "nats-2", server, now))
	require.Error(t, good("app", "ca", "", server, now), "a client cannot pose as a server")
	require.Error(t, good("nats-1", "ca", "", client, now), "nor a server as a client")
	require.Error(t, good("app", "routes-ca", "", client, now), "nor a client as a route")
	require.Error(t, good("nats-1", "routes-ca", "nats-1", server, now))
	require.Error(t, good("app", "ca", "", client, now.Add(49*time.Hour)))

	for name, mode := range map[string]os.FileMode{"app.nk": 0o600, "app.key": 0o600, "ca.key": 0o600, "routes-ca.key": 0o600, "nats-1.routes.key": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode().Perm())
}

// A second call adds, and leaves what is in use.
func TestWrite_KeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	content := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(data)
	}
	require.NoError(t, credentials.Plan{Clients: []string{"node-a"}}.Write(dir))
	ca, cert, seed, public := content("ca.pem"), content("node-a.pem"), content("node-a.nk"), content("public.conf")
	require.NoError(t, credentials.Plan{Clients: []string{"node-a", "node-b"}}.Write(dir))
	require.Equal(t, []string{ca, cert, seed}, []string{content("ca.pem"), content("node-a.pem"), content("node-a.nk")})
	require.Contains(t, content("public.conf"), public)
	require.Contains(t, content("public.conf"), "NODE_B_NKEY: U")
	require.NotContains(t, content("public.conf"), seed)
	require.NoError(t, read(t, dir, "node-b").CheckSignatureFrom(read(t, dir, "ca")))
}

func TestWrite_RefusesWhatCannotWork(t *testing.T) {
	for name, plan := range map[string]credentials.Plan{
		"a path":               {Clients: []string{"../x"}},
		"nothing":              {Servers: []string{""}},
		"upper case":           {Clients: []string{"Node"}},
		"a name twice":         {Servers: []string{"a"}, Clients: []string{"a"}},
		"a variable twice":     {Clients: []string{"a-b", "a.b"}},
		"the authority's name": {Clients: []string{"ca"}},
		"another's file":       {Clients: []string{"nats-1.routes"}},
		"a time in the past":   {Valid: -1},
	} {
		dir := filepath.Join(t.TempDir(), "none")
		require.ErrorIs(t, plan.Write(dir), messages.ErrInvalidArgument, name)
		require.NoDirExists(t, dir, name)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.nk"), []byte("hunter2"), 0o600))
	err := credentials.Plan{}.Write(dir)
	require.ErrorIs(t, err, messages.ErrCorrupt)
	require.NotContains(t, err.Error(), "hunter2")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("x"), 0o600))
	require.ErrorIs(t, credentials.Plan{}.Write(dir), messages.ErrCorrupt)
	require.ErrorIs(t, credentials.Plan{}.Write(filepath.Join(dir, "ca.pem")), messages.ErrStorage)
}
