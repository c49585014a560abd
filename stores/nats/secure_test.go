package nats_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
	"github.com/leasehold/leasehold/stores/storetest"
)

// certificate writes a certificate that is its own authority, for a server and its clients on this machine.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return certFile, keyFile
}

// mTLS, an nkey, and the permissions that the package comment names: a node can do its work, and can do no other
// cluster's.
func TestSecure_MutualTLSNkeyAndPermissions(t *testing.T) {
	certFile, keyFile := certificate(t)
	pair, err := nkeys.CreateUser()
	require.NoError(t, err)
	public, err := pair.PublicKey()
	require.NoError(t, err)
	seed, err := pair.Seed()
	require.NoError(t, err)
	seedFile := filepath.Join(t.TempDir(), "node.nk")
	require.NoError(t, os.WriteFile(seedFile, seed, 0o600))
	s, err := natsserver.Start(t.Context(), natsserver.Config{Dir: t.TempDir(), Configure: func(o *server.Options) {
		pool := x509.NewCertPool()
		data, err := os.ReadFile(certFile)
		require.NoError(t, err)
		require.True(t, pool.AppendCertsFromPEM(data))
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		require.NoError(t, err)
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
		o.TLS, o.TLSVerify, o.TLSTimeout = true, true, 5
		o.Nkeys = []*server.NkeyUser{{Nkey: public, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: nats.Permissions("mine")},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}}}
	}})
	require.NoError(t, err)
	defer s.Shutdown()
	cfg := nats.Config{URL: s.URL(), Cluster: "mine", SyncAlways: true, CAFile: certFile, CertFile: certFile, KeyFile: keyFile, NKeyFile: seedFile,
		Timeout: 5 * time.Second}
	storetest.LeaseStore(t, openLeases(t, cfg), storetest.RealTime{})
	storetest.DurableStore(t, openObjects(t, cfg))

	other := cfg
	other.Cluster, other.Timeout = "yours", 300*time.Millisecond
	_, err = nats.OpenLeases(t.Context(), other)
	require.ErrorIs(t, err, messages.ErrUnavailable, "not permitted: no answer")
	for name, change := range map[string]func(*nats.Config){
		"no key":                func(c *nats.Config) { c.NKeyFile = "" },
		"no certificate":        func(c *nats.Config) { c.CertFile, c.KeyFile = "", "" },
		"an unknown authority":  func(c *nats.Config) { c.CAFile, _ = certificate(t) },
		"somebody else's files": func(c *nats.Config) { c.CertFile, c.KeyFile = certificate(t) },
	} {
		cfg := cfg
		change(&cfg)
		_, err := nats.OpenLeases(t.Context(), cfg)
		require.ErrorIs(t, err, messages.ErrUnavailable, name)
	}
}

// What was acknowledged is there when the server starts again on its folder.
func TestRestart_NothingIsLost(t *testing.T) {
	dir := t.TempDir()
	s, err := natsserver.Start(t.Context(), natsserver.Config{Dir: dir})
	require.NoError(t, err)
	cfg := nats.Config{URL: s.URL(), SyncAlways: true}
	leases, objects, key := openLeases(t, cfg), openObjects(t, cfg), storetest.NewKey()
	lease, err := leases.Acquire(t.Context(), key, "a", time.Hour)
	require.NoError(t, err)
	_, err = objects.PutIfAbsent(t.Context(), "a/b", noise(2<<20))
	require.NoError(t, err)
	s.Shutdown()
	s, err = natsserver.Start(t.Context(), natsserver.Config{Dir: dir})
	require.NoError(t, err)
	defer s.Shutdown()
	cfg.URL = s.URL()
	got, ok, err := openLeases(t, cfg).Read(t.Context(), key)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, lease, got)
	data, ok, err := openObjects(t, cfg).Get(t.Context(), "a/b", 1<<30)
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, data, 2<<20)
}
