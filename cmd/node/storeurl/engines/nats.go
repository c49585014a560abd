package engines

import (
	"context"
	"crypto/tls"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/stores/nats"
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
	cfg.Log = o.Log
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
	cfg.Log = o.Log
	return within(ctx, func(ctx context.Context) (storeurl.DurableStore, error) {
		store, err := nats.OpenObjects(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return store, nil
	})
}

func natsConfig(rest string, of kind) (nats.Config, error) {
	a := parse("nats", rest)
	cfg := nats.Config{
		Cluster: a.take("cluster"), Domain: a.take("domain"), Replicas: a.number("replicas", 1),
		SyncAlways: a.oneOf("sync", "", "always") != "", SeparateHosts: a.flag("separate_hosts"),
		CredsFile: a.file("creds_file"), NKeyFile: a.file("nkey_file"),
		CAFile: a.file("ca_file"), CertFile: a.file("cert_file"), KeyFile: a.file("key_file"),
	}
	if of == leasesKind {
		cfg.KeepEntries = a.number("keep_entries", 1)
	} else {
		cfg.ChunkBytes = a.number("chunk_bytes", 1)
		cfg.Timeout = objectsTimeout
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
	case cfg.Replicas != 0 && cfg.Replicas != 1 && cfg.Replicas != 3 && cfg.Replicas != 5:
		a.fail("the parameter %q must be 1, 3 or 5", "replicas")
	case !cfg.SyncAlways && (!cfg.SeparateHosts || cfg.Replicas < 3):
		a.fail("what is acknowledged must survive a power cut: say sync=always if every NATS server runs with `sync_interval: always`, " +
			"or replicas=3&separate_hosts=true if no power cut takes more than one of three servers")
	}
	return cfg, a.done()
}
