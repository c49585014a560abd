package natsserver

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/leasehold/leasehold/messages"
)

// MinPayload is the largest message in bytes that a server of this package takes at least, and does
// take unless its file says more: a request to a tenant, and its reply, travel as one message each.
const MinPayload = messages.MaxMessageBytes

// Config says where a server keeps its data and how it is reached. Only Dir is needed.
type Config struct {
	// Dir is the folder of JetStream's files. Two servers must not share one.
	Dir string
	// Name of the server, unique in its cluster and kept over restarts; "": "leasehold". See SafeName
	// and KeptName.
	Name string
	// Host to listen on; "": 127.0.0.1. Anything but loopback needs authentication, see ConfigFile.
	Host string
	// Port for clients; 0: a free one. After a restart a server gets another free one, which clients
	// find through the other members only: name a port for one that stands alone.
	Port int
	// ClusterName makes the server a member of a cluster of servers; "": it stands alone.
	ClusterName string
	// ClusterHost is where it listens for the other members; "": Host.
	ClusterHost string
	// ClusterPort is where the other members reach it. Needed in a cluster.
	ClusterPort int
	// Routes are the "host:port" of the members' cluster ports (its own may be among them). Their
	// number is what the first election counts with, so all members must be named.
	Routes []string
	// ConfigFile is an ordinary configuration file of nats-server, for authorization, accounts, TLS and
	// limits; "": none. Whatever the other fields say is set over it; the cluster's name only if
	// the file has none.
	ConfigFile string
	// MaxStore is how many bytes JetStream may use on the disk; 0: what ConfigFile says, or else three
	// quarters of what is free.
	MaxStore int64
	// MaxConnections bounds the clients' connections; 0: what ConfigFile says, or else what nats-server does.
	MaxConnections int
	// NoSync leaves the fsync of every write out. An acknowledgement can then be lost in a power cut.
	NoSync bool
	// Configure, if not nil, may change the options before the server starts: TLS, accounts,
	// permissions, limits.
	Configure func(*server.Options) `json:"-"`
	// Logger takes what the server logs; nil: nothing is logged. See NewLogger.
	Logger server.Logger `json:"-"`
}

// Check returns the error that Start would have for a Config that can never work, without starting
// anything: CodeInvalidArgument. It reads ConfigFile and the files that it names.
func (cfg Config) Check() error {
	_, err := cfg.options()
	return err
}

// Open reports whether clients come in without a proof of who they are. It is false for a Config that Check refuses.
func (cfg Config) Open() bool {
	opts, err := cfg.options()
	return err == nil && !clientsAreKnown(opts)
}

func invalid(format string, args ...any) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf(format, args...)}
}

// options turns a Config into the server's own options.
func (cfg Config) options() (*server.Options, error) {
	if cfg.Dir == "" || cfg.Port < 0 || cfg.MaxStore < 0 || (cfg.ClusterName != "" && cfg.ClusterPort <= 0) {
		return nil, invalid("a NATS server needs a folder, limits that are not negative, and in a cluster a cluster port")
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeStorage, Object: cfg.Dir, Message: "no absolute path", Err: err}
	}
	opts := &server.Options{}
	if cfg.ConfigFile != "" {
		if opts, err = server.ProcessConfigFile(cfg.ConfigFile); err != nil {
			return nil, &messages.Error{Code: messages.CodeInvalidArgument, Object: cfg.ConfigFile, Message: "the NATS server cannot use its configuration file", Err: err}
		}
		opts.ConfigFile = "" // a reload, which clients of the system account can ask for, would undo what is set below
	}
	opts.ServerName = either(cfg.Name, "leasehold")
	opts.Host, opts.Port = either(cfg.Host, "127.0.0.1"), cfg.Port
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	opts.DontListen = false
	opts.JetStream, opts.StoreDir, opts.SyncAlways = true, dir, !cfg.NoSync
	if cfg.MaxStore != 0 {
		opts.JetStreamMaxStore = cfg.MaxStore
	}
	if opts.MaxConn == 0 {
		opts.MaxConn = cfg.MaxConnections
	}
	opts.NoSigs, opts.NoLog = true, true // signals are the process's own business, and so is its log
	opts.DisableJetStreamBanner = true
	if opts.ReconnectErrorReports == 0 {
		opts.ReconnectErrorReports = 60 // of the attempts each second to reach a member that is gone
	}
	if opts.MaxPayload == 0 {
		opts.MaxPayload = MinPayload
	}
	if err := cfg.cluster(opts); err != nil {
		return nil, err
	}
	if cfg.Configure != nil {
		cfg.Configure(opts)
	}
	return opts, check(opts)
}

// cluster sets what makes the server a member.
func (cfg Config) cluster(opts *server.Options) error {
	if cfg.ClusterName == "" {
		if opts.Cluster.Port != 0 || opts.Cluster.Name != "" || len(opts.Routes) > 0 {
			return invalid("the file %s makes the NATS server a member of a cluster, and nothing else does", cfg.ConfigFile)
		}
		return nil
	}
	c := &opts.Cluster
	c.Name = either(c.Name, cfg.ClusterName)
	c.Host, c.Port, c.ListenStr = either(cfg.ClusterHost, opts.Host), cfg.ClusterPort, ""
	opts.Routes, opts.RoutesStr = nil, ""
	for _, r := range cfg.Routes {
		if _, _, err := net.SplitHostPort(r); err != nil {
			return &messages.Error{Code: messages.CodeInvalidArgument, Message: "a route must be host:port", Err: err}
		}
		u := &url.URL{Scheme: "nats-route", Host: r}
		if c.Username != "" { // all members have the same file
			u.User = url.UserPassword(c.Username, c.Password)
		}
		opts.Routes = append(opts.Routes, u)
	}
	return nil
}

// check refuses options under which strangers could come in, or under which requests would not fit.
func check(opts *server.Options) error {
	switch {
	case opts.MaxPayload < MinPayload:
		return invalid("max_payload of the NATS server must be at least %d bytes, is %d", MinPayload, opts.MaxPayload)
	case !loopback(opts.Host) && !clientsAreKnown(opts):
		return invalid("a NATS server that listens on %s, which is not a loopback address, needs a file with an authorization section, "+
			"or with TLS that verifies clients (and without no_auth_user)", opts.Host)
	case opts.Cluster.Port != 0 && !loopback(opts.Cluster.Host) && !membersAreKnown(opts):
		return invalid("a NATS server whose cluster port listens on %s, which is not a loopback address, needs a file whose cluster section "+
			"has an authorization, or TLS", opts.Cluster.Host)
	}
	return nil
}

// loopback reports whether an address can be reached from this machine only. A host name other than
// localhost does not count: what it means can change.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || (ip != nil && ip.IsLoopback())
}

// clientsAreKnown reports whether every client has to prove who it is.
func clientsAreKnown(o *server.Options) bool {
	if verifies(o.TLSConfig) && !o.AllowNonTLS {
		return true
	}
	return o.NoAuthUser == "" && (o.Username != "" || o.Authorization != "" || len(o.Users) > 0 || len(o.Nkeys) > 0 ||
		len(o.TrustedKeys) > 0 || len(o.TrustedOperators) > 0 || o.AuthCallout != nil || o.CustomClientAuthentication != nil)
}

// membersAreKnown reports whether every server that connects has to prove that it is a member. (In the cluster
// section, TLS always verifies both sides.)
func membersAreKnown(o *server.Options) bool {
	return o.Cluster.Username != "" || verifies(o.Cluster.TLSConfig) || o.CustomRouterAuthentication != nil
}

func verifies(c *tls.Config) bool { return c != nil && c.ClientAuth == tls.RequireAndVerifyClientCert }

func either(s, standard string) string {
	if s == "" {
		return standard
	}
	return s
}
