package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/leasehold/leasehold/internal/smallfile"
)

// WatchTLS returns how the HTTP API proves who it is and, with tls_client_ca, who may come in, as their files stand now;
// nil: there is no TLS.
func (c Config) WatchTLS(log *slog.Logger) (*Watched[*tls.Config], error) {
	if c.TLSCert == "" && c.TLSKey == "" && c.TLSClientCA == "" {
		return nil, nil
	}
	return Watch(log, "certificates", []string{c.TLSCert, c.TLSKey, c.TLSClientCA}, c.loadTLS)
}

func (c Config) loadTLS() (*tls.Config, error) {
	pair, err := smallfile.KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, err
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if c.TLSClientCA == "" {
		return out, nil
	}
	pem, err := smallfile.Read(c.TLSClientCA)
	if err != nil {
		return nil, err
	}
	out.ClientCAs = x509.NewCertPool()
	if !out.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: holds no certificate", c.TLSClientCA)
	}
	out.ClientAuth = tls.RequireAndVerifyClientCert
	// A resumed session would be let in by the authorities of its first handshake.
	out.SessionTicketsDisabled = true
	return out, nil
}

// tls checks the settings of TLS, and that their files can be used.
func (v *validator) tls(c Config) {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		v.fail("tls_cert", "and tls_key need each other")
		return
	case c.TLSClientCA != "" && c.TLSCert == "":
		v.fail("tls_client_ca", "needs tls_cert and tls_key")
		return
	}
	if c.TLSCert == "" {
		return
	}
	if _, err := c.loadTLS(); err != nil {
		field := "tls_cert"
		if path := (*os.PathError)(nil); errors.As(err, &path) && path.Path == c.TLSKey {
			field = "tls_key"
		} else if _, pairErr := smallfile.KeyPair(c.TLSCert, c.TLSKey); pairErr == nil {
			field = "tls_client_ca"
		}
		v.fail(field, "%v", err)
	}
}
