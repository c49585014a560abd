package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// TLS returns how the HTTP API proves who it is and, with tls_client_ca, who may come in; nil: there is no
// TLS. The files are read again when a handshake finds them changed, so that they can be replaced
// without a restart; if the new ones cannot be used, log is told and the old ones stay in use. It is safe for
// concurrent use.
func (c Config) TLS(log *slog.Logger) (*tls.Config, error) {
	if c.TLSCert == "" && c.TLSKey == "" && c.TLSClientCA == "" {
		return nil, nil
	}
	f := &certificates{cert: c.TLSCert, key: c.TLSKey, clientCA: c.TLSClientCA, log: log}
	f.seen = f.look()
	var err error
	if f.loaded, err = f.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: f.loaded.NextProtos,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current(), nil },
	}, nil
}

// certificates are files in PEM, and what was made of them.
type certificates struct {
	cert, key, clientCA string
	log                 *slog.Logger

	mu     sync.Mutex
	seen   []os.FileInfo // as they were just before they were read; nil for one that is not there
	loaded *tls.Config
}

// current returns what the files hold now, or held when they could last be used.
func (f *certificates) current() *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.look()
	changed := false
	for i := range now {
		changed = changed || !same(f.seen[i], now[i])
	}
	if !changed {
		return f.loaded
	}
	f.seen = now
	loaded, err := f.load()
	if err != nil {
		f.log.Error("the new TLS files cannot be used; the old ones stay in use", "error", err)
		return f.loaded
	}
	f.log.Info("the TLS files were read again")
	f.loaded = loaded
	return loaded
}

func (f *certificates) look() []os.FileInfo {
	out := make([]os.FileInfo, 0, 3)
	for _, path := range []string{f.cert, f.key, f.clientCA} {
		info, err := os.Stat(path)
		if err != nil {
			info = nil
		}
		out = append(out, info)
	}
	return out
}

// same reports whether a file is the one that was read: not another one under its name, as a symbolic link that
// was turned would be, and not written to since.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (f *certificates) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, err
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if f.clientCA == "" {
		return out, nil
	}
	pem, err := os.ReadFile(f.clientCA)
	if err != nil {
		return nil, err
	}
	out.ClientCAs = x509.NewCertPool()
	if !out.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: holds no certificate", f.clientCA)
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
	if _, err := c.TLS(slog.New(slog.DiscardHandler)); err != nil {
		field := "tls_cert"
		if path := (*os.PathError)(nil); errors.As(err, &path) && path.Path == c.TLSKey {
			field = "tls_key"
		} else if _, pairErr := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); pairErr == nil {
			field = "tls_client_ca"
		}
		v.fail(field, "%v", err)
	}
}
