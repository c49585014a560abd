package natsconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/internal/smallfile"
	"github.com/leasehold/leasehold/messages"
)

// When a connection whose server does not answer is given up: after more than pingsOpen pings without an answer.
const (
	pingEvery = 2 * time.Second
	pingsOpen = 2
)

// Connect returns an open connection, which the caller closes. The context bounds the connecting only, not the
// life of the connection. Its errors: CodeInvalidArgument for a Config or files that cannot be used, and
// CodeUnavailable if no server let the client in, also when that is because ctx ended (errors.Is finds
// the context's error in it). Safe for concurrent use.
func (cfg Config) Connect(ctx context.Context) (*natsgo.Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	security, err := cfg.security()
	if err != nil {
		return nil, err
	}
	log, dialer := cfg.Log, &dialer{timeout: cfg.Timeout, connecting: ctx}
	opts := []natsgo.Option{
		natsgo.Name(cfg.Name),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { log.Warn("NATS connection", "err", err) }),
		natsgo.Timeout(cfg.Timeout),
		natsgo.SetCustomDialer(dialer),
		natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(50 * time.Millisecond),
		natsgo.ReconnectJitter(50*time.Millisecond, 200*time.Millisecond),
		natsgo.ReconnectBufSize(-1), // an operation fails at once rather than being sent when nobody waits for it
		natsgo.PingInterval(pingEvery),
		natsgo.MaxPingsOutstanding(pingsOpen),
	}
	nc, err := natsgo.Connect(cfg.URL, append(append(opts, security...), cfg.Options...)...)
	dialer.connected()
	if ctx.Err() != nil {
		if err == nil {
			nc.Close()
		}
		return nil, &messages.Error{Code: messages.CodeUnavailable, Message: "gave up connecting to NATS", Err: ctx.Err()}
	}
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeUnavailable, Message: "cannot connect to NATS", Err: err}
	}
	return nc, nil
}

// security returns the options of authentication and TLS. Files that cannot be used are CodeInvalidArgument.
func (cfg Config) security() ([]natsgo.Option, error) {
	bad := func(file, why string, err error) ([]natsgo.Option, error) {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Object: file, Message: why, Err: err}
	}
	var opts []natsgo.Option
	if cfg.CredsFile != "" {
		if _, err := os.Stat(cfg.CredsFile); err != nil {
			return bad(cfg.CredsFile, "cannot read the credentials file", err)
		}
		opts = append(opts, natsgo.UserCredentials(cfg.CredsFile))
	}
	if cfg.NKeyFile != "" {
		opt, err := natsgo.NkeyOptionFromSeed(cfg.NKeyFile)
		if err != nil {
			return bad(cfg.NKeyFile, "cannot read the nkey seed", err)
		}
		opts = append(opts, opt)
	}
	if cfg.CAFile == "" && cfg.CertFile == "" {
		return opts, nil
	}
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := smallfile.Read(cfg.CAFile)
		if err != nil {
			return bad(cfg.CAFile, "cannot read the certificates", err)
		}
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(pem) {
			return bad(cfg.CAFile, "no certificate in the file", nil)
		}
	}
	if cfg.CertFile != "" {
		cert, err := smallfile.KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return bad(cfg.CertFile, "cannot use the client certificate", err)
		}
		tlsConfig.Certificates = []tls.Certificate{cert}
	}
	return append(opts, natsgo.Secure(tlsConfig)), nil
}
