package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/messages"
)

// Config says which NATS servers to use and how. URL or Conn is needed, and SyncAlways or
// SeparateHosts.
type Config struct {
	// URL of the servers, joined by commas ("nats://host:4222", "tls://…"). It is not used with Conn.
	URL string
	// CredsFile is a credentials file (JWT and nkey seed), NKeyFile a file with an nkey seed: how the
	// client proves who it is. "": neither.
	CredsFile, NKeyFile string
	// CAFile, CertFile and KeyFile are PEM files for TLS: who signs the servers' certificates, and the
	// client's own certificate and key (mTLS; both or neither). "": the system's roots, no certificate.
	CAFile, CertFile, KeyFile string
	// Options are further options of the connection, applied after the ones above.
	Options []natsgo.Option
	// Conn is a connection to use in place of URL. It is shared, and not closed with the store. It
	// should be made with natsgo.ReconnectBufSize(-1), so that nothing is sent long after its caller gave up.
	Conn *natsgo.Conn

	// Cluster names the Leasehold cluster: every name of a stream or subject has it, so that several
	// clusters can share servers. [A-Za-z0-9_-]{1,32}; "": "leasehold".
	Cluster string
	// Domain is the JetStream domain; "": the one of the server.
	Domain string
	// Replicas of each stream: 1, 3 or 5; 0: 1. A stream that exists must have as many.
	Replicas int
	// SyncAlways is the operator's word that every server runs with `sync_interval: always`. It cannot be
	// seen over the wire (only from the system account), and without it an acknowledged write is lost
	// in a power cut: of the only server, or of all of them at once.
	SyncAlways bool
	// SeparateHosts is the operator's word that no power cut takes more than a minority of the replicas.
	// It stands in for SyncAlways where there are 3 replicas or more.
	SeparateHosts bool
	// Timeout bounds an operation whose context has no earlier deadline; 0: 5 s. After it the operation
	// is CodeUnavailable.
	Timeout time.Duration
	// KeepEntries is how many entries of a key's audit trail are kept: so many grants (acquire, release,
	// forget), and so many renewals; 0: 256. A stream that exists keeps its own number. (Leases only.)
	KeepEntries int
	// ChunkBytes is the size of the messages that an object is cut into; 0: 512 KiB, or what the server
	// takes if that is less. (Objects only.)
	ChunkBytes int
	// OrphanAge is the age from which on chunks without a manifest are deleted by Sweep; 0: 24 h. At
	// least 1 h, and a put gives up before half of it has passed. (Objects only.)
	OrphanAge time.Duration
	// Log takes what goes wrong on the connection apart from any operation; nil: nothing is logged.
	Log *slog.Logger
	// Now is the clock that a put measures its own duration with; nil: time.Now. No lease depends on it.
	Now func() time.Time
}

const (
	defaultCluster   = "leasehold"
	defaultTimeout   = 5 * time.Second
	defaultKeep      = 256
	defaultChunk     = 512 << 10
	defaultOrphanAge = 24 * time.Hour
	minOrphanAge     = time.Hour
)

var clusterPattern = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,32}\z`)

func invalid(why string) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: why}
}

// withDefaults checks a Config and fills in what it leaves open.
func (cfg Config) withDefaults() (Config, error) {
	for value, standard := range map[*int]int{&cfg.Replicas: 1, &cfg.KeepEntries: defaultKeep} {
		if *value == 0 {
			*value = standard
		}
	}
	if cfg.Cluster == "" {
		cfg.Cluster = defaultCluster
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.OrphanAge == 0 {
		cfg.OrphanAge = defaultOrphanAge
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case cfg.URL == "" && cfg.Conn == nil:
		return cfg, invalid("a NATS store needs a URL or a connection")
	case !clusterPattern.MatchString(cfg.Cluster):
		return cfg, invalid("the name of the cluster must match [A-Za-z0-9_-]{1,32}")
	case cfg.Domain != "" && !clusterPattern.MatchString(cfg.Domain):
		return cfg, invalid("the JetStream domain must match [A-Za-z0-9_-]{1,32}")
	case cfg.Replicas != 1 && cfg.Replicas != 3 && cfg.Replicas != 5:
		return cfg, invalid("replicas must be 1, 3 or 5")
	case !cfg.SyncAlways && (!cfg.SeparateHosts || cfg.Replicas == 1):
		return cfg, invalid("an acknowledged write must survive a power cut: run the servers with `sync_interval: always` and set SyncAlways, " +
			"or use 3 replicas on hosts that do not fail together and set SeparateHosts")
	case (cfg.CertFile == "") != (cfg.KeyFile == ""):
		return cfg, invalid("a client certificate needs its key, and a key its certificate")
	case cfg.Timeout < 0 || cfg.KeepEntries < 1 || cfg.ChunkBytes < 0 || cfg.OrphanAge < minOrphanAge:
		return cfg, invalid("limits must not be negative, at least one entry is kept, and OrphanAge is at least 1 h")
	}
	return cfg, nil
}

// connect opens the connection that the Config describes. owned says that the store has to close it.
func (cfg Config) connect(ctx context.Context) (nc *natsgo.Conn, owned bool, err error) {
	if cfg.Conn != nil {
		return cfg.Conn, false, checkVersion(cfg.Conn)
	}
	timeout := cfg.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	opts := []natsgo.Option{
		natsgo.Name("leasehold"),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { cfg.Log.Warn("NATS connection", "err", err) }),
		natsgo.Timeout(max(timeout, time.Millisecond)),
		natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(50 * time.Millisecond),
		natsgo.ReconnectJitter(50*time.Millisecond, 200*time.Millisecond),
		natsgo.ReconnectBufSize(-1), // an operation fails at once rather than being sent when nobody waits for it
		natsgo.PingInterval(5 * time.Second),
		natsgo.MaxPingsOutstanding(2),
	}
	security, err := cfg.security()
	if err != nil {
		return nil, false, err
	}
	nc, err = natsgo.Connect(cfg.URL, append(append(opts, security...), cfg.Options...)...)
	if err != nil {
		return nil, false, &messages.Error{Code: messages.CodeUnavailable, Message: "cannot connect to NATS", Err: err}
	}
	if err := checkVersion(nc); err != nil {
		nc.Close()
		return nil, false, err
	}
	return nc, true, nil
}

// The oldest server whose compare-and-set was read and tested: in a cluster it has to see writes that are
// not yet committed, also where the condition is on a wildcard.
const oldestMajor, oldestMinor = 2, 15

// checkVersion refuses a server that is too old.
func checkVersion(nc *natsgo.Conn) error {
	text := nc.ConnectedServerVersion()
	if text == "" {
		return &messages.Error{Code: messages.CodeUnavailable, Message: "not connected to NATS"}
	}
	var major, minor int
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil || major < oldestMajor || (major == oldestMajor && minor < oldestMinor) {
		return invalid(fmt.Sprintf("the NATS server has version %s; needed is %d.%d or newer", text, oldestMajor, oldestMinor))
	}
	return nil
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
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return bad(cfg.CAFile, "cannot read the certificates", err)
		}
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(pem) {
			return bad(cfg.CAFile, "no certificate in the file", nil)
		}
	}
	if cfg.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return bad(cfg.CertFile, "cannot use the client certificate", err)
		}
		tlsConfig.Certificates = []tls.Certificate{cert}
	}
	return append(opts, natsgo.Secure(tlsConfig)), nil
}
