package natsconn

import (
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/messages"
)

// Config says which NATS servers to connect to and how. Only URL is needed. It may be copied, and is safe
// for concurrent use as long as nobody changes it.
type Config struct {
	// URL of the servers, joined by commas ("nats://host:4222", "tls://…"). One of them is enough to
	// connect: the others of its cluster are learned from it.
	URL string
	// CredsFile is a credentials file (JWT and nkey seed), NKeyFile a file with an nkey seed: how the
	// client proves who it is. One of them at most; "": neither.
	CredsFile, NKeyFile string
	// CAFile, CertFile and KeyFile are PEM files for TLS: who signs the servers' certificates, and the
	// client's own certificate and key (mTLS; both or neither). "": the system's roots, no certificate.
	CAFile, CertFile, KeyFile string
	// Options are further options of the connection, applied after the ones of this package.
	Options []natsgo.Option
	// Name is how the servers' operators see the connection; "": "leasehold".
	Name string
	// Timeout bounds how long one server may take to be connected to, at the start and later; 0: 5 s.
	Timeout time.Duration
	// Log takes what goes wrong on the connection apart from any operation; nil: nothing is logged.
	Log *slog.Logger
}

const (
	defaultName    = "leasehold"
	defaultTimeout = 5 * time.Second
)

// schemes are the ways to reach a server.
var schemes = []string{"nats", "tls", "ws", "wss"}

func invalid(why string) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: why}
}

// Validate returns an error with CodeInvalidArgument unless the Config can be used. It opens no file and
// asks no server; its error holds no part of the URL, in which there may be a password.
func (cfg Config) Validate() error {
	switch {
	case cfg.URL == "":
		return invalid("a NATS connection needs a URL")
	case cfg.CredsFile != "" && cfg.NKeyFile != "":
		return invalid("a NATS connection takes a credentials file or an nkey file, not both")
	case (cfg.CertFile == "") != (cfg.KeyFile == ""):
		return invalid("a client certificate needs its key, and a key its certificate")
	case cfg.Timeout < 0:
		return invalid("the timeout of a NATS connection must not be negative")
	}
	for server := range strings.SplitSeq(cfg.URL, ",") {
		server = strings.TrimSpace(server)
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		if u, err := url.Parse(server); err != nil || u.Hostname() == "" || !slices.Contains(schemes, u.Scheme) {
			return invalid("the URL of a NATS server must be nats://HOST[:PORT] (or tls, ws, wss), several of them joined by commas")
		}
	}
	return nil
}

// withDefaults fills in what a valid Config leaves open.
func (cfg Config) withDefaults() Config {
	if cfg.Name == "" {
		cfg.Name = defaultName
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}
