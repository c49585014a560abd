package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/cmd/node/config"
)

// secrets are the files that say who may come in, as they stand now. Its methods are safe for concurrent use.
type secrets struct {
	tokens *config.Watched[api.Tokens]  // nil: no token is needed
	certs  *config.Watched[*tls.Config] // nil: no TLS
	log    *slog.Logger
}

func readSecrets(c config.Config, log *slog.Logger) (*secrets, error) {
	s := &secrets{log: log}
	var err error
	if c.TokenFile != "" {
		if s.tokens, err = config.Watch(log, "tokens", []string{c.TokenFile}, func() (api.Tokens, error) {
			list, err := c.Tokens()
			return api.NewTokens(list...), err
		}); err != nil {
			return nil, err
		}
	}
	s.certs, err = c.WatchTLS(log)
	return s, err
}

// reload reads all files now, changed or not.
func (s *secrets) reload() {
	if s.tokens != nil {
		s.tokens.Reload()
	}
	if s.certs != nil {
		s.certs.Reload()
	}
}

// tokenSet is api.Config.Tokens.
func (s *secrets) tokenSet() func() api.Tokens {
	if s.tokens == nil {
		return nil
	}
	return s.tokens.Current
}

// tls is how the server proves who it is, and asks its clients to; nil: there is no TLS.
func (s *secrets) tls() *tls.Config {
	if s.certs == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: s.certs.Current().NextProtos,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.certs.Current(), nil },
	}
}

// admission remembers the authorities by which a connection's client was verified last.
type admission struct{ by atomic.Pointer[tls.Config] }

type admissionKey struct{}

// remember is http.Server.ConnContext.
func remember(ctx context.Context) context.Context {
	return context.WithValue(ctx, admissionKey{}, &admission{})
}

// admitting lets in clients whose certificate is one of the authorities that count now: a connection may be older than they are.
func (s *secrets) admitting(next http.Handler) http.Handler {
	if s.certs == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := s.certs.Current()
		a, ok := r.Context().Value(admissionKey{}).(*admission)
		if now.ClientCAs != nil && (!ok || a.by.Load() != now) {
			if !known(r.TLS, now.ClientCAs) {
				w.Header().Set("Connection", "close")
				api.Refuse(w, "the client certificate is not valid any more")
				return
			}
			if ok {
				a.by.Store(now)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// known reports whether a client's certificate leads to one of some authorities.
func known(c *tls.ConnectionState, authorities *x509.CertPool) bool {
	if c == nil || len(c.PeerCertificates) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, cert := range c.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}
