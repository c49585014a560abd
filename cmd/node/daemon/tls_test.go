package daemon_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/cmd/node/daemon"
	"github.com/leasehold/leasehold/cmd/node/storeurl"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{t: t, key: key, next: 1}
	a.cert = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)}, key, nil)
	return a
}

// sign makes a certificate for key; issuer nil: it is its own.
func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey, issuer *x509.Certificate) *x509.Certificate {
	a.t.Helper()
	template.SerialNumber, template.Subject = big.NewInt(a.next), pkix.Name{CommonName: "test"}
	a.next++
	template.NotBefore = template.NotAfter.Add(-2 * time.Hour)
	if issuer == nil {
		issuer = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), a.key)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return cert
}

// issue makes a certificate for a server or a client on this machine, that ends then.
func (a *authority) issue(end time.Time) (pair tls.Certificate, certPEM, keyPEM []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	cert := a.sign(&x509.Certificate{NotAfter: end, KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, key, a.cert)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	pair, err = tls.X509KeyPair(certPEM, keyPEM)
	require.NoError(a.t, err)
	return pair, certPEM, keyPEM
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// secured is a daemon with TLS, and the files that it was given.
type secured struct {
	t       *testing.T
	folder  string
	url     string
	servers *authority
}

// put replaces a file as a whole, as whatever rotates certificates does.
func (s *secured) put(name string, text []byte) string {
	s.t.Helper()
	path := filepath.Join(s.folder, name)
	require.NoError(s.t, os.WriteFile(path+".new", text, 0o600))
	require.NoError(s.t, os.Rename(path+".new", path))
	return path
}

// rotate gives the daemon a new certificate, and returns its serial number.
func (s *secured) rotate() *big.Int {
	s.t.Helper()
	pair, cert, key := s.servers.issue(time.Now().Add(time.Hour))
	s.put("cert.pem", cert)
	s.put("key.pem", key)
	return pair.Leaf.SerialNumber
}

// get makes one request on a connection of its own, and returns the serial number of the server's certificate.
func (s *secured) get(with func(*tls.Config)) (*big.Int, error) {
	s.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(s.servers.cert)
	c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10}
	if with != nil {
		with(c)
	}
	transport := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Get(s.url + "/healthz")
	if err != nil {
		return nil, err
	}
	require.Equal(s.t, http.StatusOK, response.StatusCode)
	return response.TLS.PeerCertificates[0].SerialNumber, response.Body.Close()
}

// certified is for get: a client with a certificate.
func certified(pair tls.Certificate) func(*tls.Config) {
	return func(c *tls.Config) {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
}

// runSecured runs a daemon with the certificate of an authority of its own and, if clients is there, with mTLS.
func runSecured(t *testing.T, clients *authority) *secured {
	t.Helper()
	s := &secured{t: t, folder: t.TempDir(), servers: newAuthority(t)}
	s.rotate()
	args := []string{"--listen=127.0.0.1:0", "--shutdown-linger=0s", "--state-root=" + t.TempDir(),
		"--tls-cert=" + filepath.Join(s.folder, "cert.pem"), "--tls-key=" + filepath.Join(s.folder, "key.pem")}
	if clients != nil {
		args = append(args, "--tls-client-ca="+s.put("clients.pem", clients.pem()))
	}
	var cfg config.Config
	parser, err := kong.New(&cfg)
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	stdout, w := io.Pipe()
	signals, over := make(chan os.Signal, 2), make(chan error, 1)
	go func() {
		over <- daemon.Run(context.Background(), daemon.Options{
			Config: cfg, Schemes: storeurl.Embedded(), Stdout: w, Log: slog.New(slog.DiscardHandler), Signals: signals,
		})
		_ = w.Close()
	}()
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	t.Cleanup(func() {
		signals <- syscall.SIGTERM
		require.NoError(t, <-over)
	})
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening ")
	require.True(t, ok, "it does not run")
	s.url = url
	return s
}

func TestTLS_HTTPSOnlyAndNothingOld(t *testing.T) {
	s := runSecured(t, nil)
	require.True(t, strings.HasPrefix(s.url, "https://127.0.0.1:"), s.url)
	_, err := s.get(nil)
	require.NoError(t, err)
	_, err = s.get(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 })
	require.ErrorContains(t, err, "protocol version")
	response, err := http.Get(strings.Replace(s.url, "https:", "http:", 1) + "/healthz")
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	require.NoError(t, response.Body.Close())
	http.DefaultClient.CloseIdleConnections()
}

// With tls_client_ca, a client comes in with a certificate of that authority that is valid now, and only so.
func TestTLS_ClientsNeedACertificate(t *testing.T) {
	clients := newAuthority(t)
	s := runSecured(t, clients)
	good, _, _ := clients.issue(time.Now().Add(time.Hour))
	expired, _, _ := clients.issue(time.Now().Add(-time.Minute))
	unknown, _, _ := newAuthority(t).issue(time.Now().Add(time.Hour))
	servers, _, _ := s.servers.issue(time.Now().Add(time.Hour))

	_, err := s.get(certified(good))
	require.NoError(t, err)
	_, err = s.get(nil)
	require.ErrorContains(t, err, "certificate required")
	_, err = s.get(certified(expired))
	require.ErrorContains(t, err, "expired certificate")
	for _, stranger := range []tls.Certificate{unknown, servers} {
		_, err = s.get(certified(stranger))
		require.ErrorContains(t, err, "unknown certificate authority")
	}

	// Another authority takes effect at once, also for a client that had a session.
	sessions := tls.NewLRUClientSessionCache(1)
	with := func(c *tls.Config) { certified(good)(c); c.ClientSessionCache = sessions }
	_, err = s.get(with)
	require.NoError(t, err)
	other := newAuthority(t)
	s.put("clients.pem", other.pem())
	_, err = s.get(with)
	require.ErrorContains(t, err, "unknown certificate authority")
	welcome, _, _ := other.issue(time.Now().Add(time.Hour))
	_, err = s.get(certified(welcome))
	require.NoError(t, err)
}

// A new certificate is served without a restart; half of one, or none, leaves the old one in use.
func TestTLS_Rotation(t *testing.T) {
	s := runSecured(t, nil)
	first, err := s.get(nil)
	require.NoError(t, err)
	for range 2 {
		want := s.rotate()
		require.NotEqual(t, first, want)
		got, err := s.get(nil)
		require.NoError(t, err)
		require.Equal(t, want, got)
		first = got
	}
	next, cert, key := s.servers.issue(time.Now().Add(time.Hour))
	s.put("cert.pem", cert) // its key is not there yet
	got, err := s.get(nil)
	require.NoError(t, err)
	require.Equal(t, first, got)
	s.put("key.pem", key)
	got, err = s.get(nil)
	require.NoError(t, err)
	require.Equal(t, next.Leaf.SerialNumber, got)

	require.NoError(t, os.Remove(filepath.Join(s.folder, "cert.pem")))
	got, err = s.get(nil)
	require.NoError(t, err)
	require.Equal(t, next.Leaf.SerialNumber, got)
}

// A connection that is older than the authorities ends with them, as an old token does.
func TestTLS_AnOpenConnectionOutlivesNoAuthority(t *testing.T) {
	clients := newAuthority(t)
	s := runSecured(t, clients)
	good, _, _ := clients.issue(time.Now().Add(time.Hour))
	roots := x509.NewCertPool()
	roots.AddCert(s.servers.cert)
	for _, http2 := range []bool{false, true} {
		s.put("clients.pem", clients.pem())
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{good}}, ForceAttemptHTTP2: http2}
		client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
		get := func() (status int, again bool, err error) {
			trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { again = i.Reused }}
			r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, s.url+"/healthz", nil)
			require.NoError(t, err)
			response, err := client.Do(r)
			if err != nil {
				return 0, again, err
			}
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			return response.StatusCode, again, response.Body.Close()
		}
		for range 2 {
			status, _, err := get()
			require.NoError(t, err)
			require.Equal(t, 200, status)
		}
		s.put("clients.pem", append(clients.pem(), newAuthority(t).pem()...)) // one more: the old one still counts
		status, again, err := get()
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.True(t, again)
		s.put("clients.pem", newAuthority(t).pem())
		status, again, err = get()
		require.NoError(t, err)
		require.True(t, again, "the connection was open")
		require.Equal(t, http.StatusUnauthorized, status)
		transport.CloseIdleConnections()
	}
}
