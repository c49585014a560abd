package engines

import (
	"context"
	"crypto/tls"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
)

// kind is what a URL is used for.
type kind int

const (
	leasesKind kind = iota
	objectsKind
)

// objectsTimeout bounds an operation on an object. It is there for callers without a deadline: a node's
// operations end with its durable_timeout.
const objectsTimeout = 5 * time.Minute

func checkNATS(of kind) func(string) error {
	return func(rest string) error {
		_, err := natsConfig(rest, of)
		return err
	}
}

func openNATSLeases(ctx context.Context, rest string, o storeurl.Options) (storeurl.LeaseStore, error) {
	cfg, err := natsConfig(rest, leasesKind)
	if err != nil {
		return nil, err
	}
	cfg.Log, cfg.MustExist = o.Log, o.MustExist
	return within(ctx, func(ctx context.Context) (storeurl.LeaseStore, error) {
		store, err := nats.OpenLeases(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return store, nil
	})
}

func openNATSObjects(ctx context.Context, rest string, o storeurl.Options) (storeurl.DurableStore, error) {
	cfg, err := natsConfig(rest, objectsKind)
	if err != nil {
		return nil, err
	}
	cfg.Log, cfg.MustExist = o.Log, o.MustExist
	return within(ctx, func(ctx context.Context) (storeurl.DurableStore, error) {
		store, err := nats.OpenObjects(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return store, nil
	})
}

// NATSConn returns how to connect to the servers of a nats store's URL, and the name of the Leasehold cluster
// in it ("": the default), for what is no store: a cluster's members and its requests. It takes the
// parameters of both kinds of stores, so that one URL serves leases, copies and members; those that say how
// something is stored are checked in form and otherwise ignored. Its error is CodeInvalidArgument, and
// holds no secret. Log, Name and Timeout of the Config are the caller's to fill in.
func NATSConn(url string) (cfg natsconn.Config, cluster string, err error) {
	rest, ok := strings.CutPrefix(url, "nats:")
	if !ok {
		return cfg, "", &messages.Error{Code: messages.CodeInvalidArgument, Message: "the URL of NATS servers is nats://HOST[:PORT][,HOST…]"}
	}
	a := parse("nats", rest)
	store := takeNATSStore(a)
	store.KeepEntries, store.ChunkBytes = a.number("keep_entries", 1), a.number("chunk_bytes", 1)
	cfg = takeNATSConn(a)
	return cfg, store.Cluster, a.done()
}

func natsConfig(rest string, of kind) (nats.Config, error) {
	a := parse("nats", rest)
	cfg := takeNATSStore(a)
	if of == leasesKind {
		cfg.KeepEntries = a.number("keep_entries", 1)
	} else {
		cfg.ChunkBytes = a.number("chunk_bytes", 1)
		cfg.Timeout = objectsTimeout
	}
	conn := takeNATSConn(a)
	cfg.URL, cfg.CredsFile, cfg.NKeyFile, cfg.CAFile, cfg.CertFile, cfg.KeyFile, cfg.Options = conn.URL, conn.CredsFile, conn.NKeyFile,
		conn.CAFile, conn.CertFile, conn.KeyFile, conn.Options
	if !cfg.SyncAlways && (!cfg.SeparateHosts || cfg.Replicas < 3) {
		a.fail("what is acknowledged must survive a power cut: say sync=always if every NATS server runs with `sync_interval: always`, " +
			"or replicas=3&separate_hosts=true if no power cut takes more than one of three servers")
	}
	return cfg, a.done()
}

// takeNATSStore takes what says where and how the servers store something.
func takeNATSStore(a *address) nats.Config {
	cfg := nats.Config{
		Cluster: a.take("cluster"), Domain: a.take("domain"), Replicas: a.number("replicas", 1),
		SyncAlways: a.oneOf("sync", "", "always") != "", SeparateHosts: a.flag("separate_hosts"),
	}
	if cfg.Replicas != 0 && cfg.Replicas != 1 && cfg.Replicas != 3 && cfg.Replicas != 5 {
		a.fail("the parameter %q must be 1, 3 or 5", "replicas")
	}
	return cfg
}

// takeNATSConn takes which servers to connect to and how.
func takeNATSConn(a *address) natsconn.Config {
	cfg := natsconn.Config{
		CredsFile: a.file("creds_file"), NKeyFile: a.file("nkey_file"),
		CAFile: a.file("ca_file"), CertFile: a.file("cert_file"), KeyFile: a.file("key_file"),
	}
	if a.flag("tls") {
		cfg.Options = append(cfg.Options, func(o *natsgo.Options) error {
			o.Secure = true
			if o.TLSConfig == nil {
				o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
			}
			return nil
		})
	}
	user, password := a.password()
	switch {
	case user == "" && password == "":
	case password == "":
		a.fail("the URL of a nats store names a user without a password; see password_file")
	case cfg.CredsFile != "" || cfg.NKeyFile != "":
		a.fail("a nats store takes a user with a password, or a creds_file, or an nkey_file")
	default:
		cfg.Options = append(cfg.Options, natsgo.UserInfo(user, password))
	}
	var urls []string
	for host := range strings.SplitSeq(a.Host, ",") {
		if host == "" {
			a.fail("the URL of a nats store names no host: nats://HOST[:PORT][,HOST…]")
		}
		urls = append(urls, "nats://"+host)
	}
	cfg.URL = strings.Join(urls, ",")
	switch {
	case strings.Trim(a.Path, "/") != "":
		a.fail("the URL of a nats store has no path; see the parameter cluster")
	case cfg.CredsFile != "" && cfg.NKeyFile != "":
		a.fail("a nats store takes a creds_file or an nkey_file, not both")
	case (cfg.CertFile == "") != (cfg.KeyFile == ""):
		a.fail("cert_file and key_file need each other")
	case a.err == nil:
		a.err = cfg.Validate()
	}
	return cfg
}
