package nats

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
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
	// MustExist refuses servers that do not have the stream, as CodeNotFound, instead of creating it.
	MustExist bool
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
	case cfg.Timeout < 0 || cfg.KeepEntries < 1 || cfg.ChunkBytes < 0 || cfg.OrphanAge < minOrphanAge:
		return cfg, invalid("limits must not be negative, at least one entry is kept, and OrphanAge is at least 1 h")
	}
	if cfg.Conn != nil {
		return cfg, nil
	}
	return cfg, cfg.connection().Validate()
}

// connection is how the servers of a Config are connected to. However long an operation may take, a server
// that does not let the client in within 5 s is passed over for the next one.
func (cfg Config) connection() natsconn.Config {
	return natsconn.Config{URL: cfg.URL, CredsFile: cfg.CredsFile, NKeyFile: cfg.NKeyFile, CAFile: cfg.CAFile, CertFile: cfg.CertFile,
		KeyFile: cfg.KeyFile, Options: cfg.Options, Timeout: min(cfg.Timeout, defaultTimeout), Log: cfg.Log}
}

// connect opens the connection that the Config describes. owned says that the store has to close it.
func (cfg Config) connect(ctx context.Context) (nc *natsgo.Conn, owned bool, err error) {
	if cfg.Conn != nil {
		return cfg.Conn, false, checkVersion(cfg.Conn)
	}
	if nc, err = cfg.connection().Connect(ctx); err != nil {
		return nil, false, err
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
