// Package config is the configuration of a node process: the flags of `node run`, the environment
// (LEASEHOLD_ and the flag's name), and a YAML file, in this order of precedence.
//
// [Config] has one field for each setting, with the tags that make it a flag; [File] makes a YAML
// file a source of kong. [Config.Validate] names the fields at fault, and [Config.Effective] fills in
// what was derived from others.
package config

import (
	"cmp"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/snapshotactor"
)

// Stores says where the stores are: all that an admin command needs.
type Stores struct {
	Config    string `help:"YAML file with the settings below, named as the flags are, with _ for -." placeholder:"FILE" yaml:"-"`
	StateRoot string `default:"leasehold-data" help:"Folder of this node's local files. One node at a time may use it." placeholder:"DIR" yaml:"state_root"`
	Leases    string `help:"Lease store: sqlite:PATH, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, nats://HOST:PORT?sync=always or s3://BUCKET/PREFIX (docs/operations.md has their parameters); default: leases.db in the state root. Nodes that work together share it." placeholder:"URL" yaml:"leases"`
	Durable   string `help:"Durable store: dir:PATH, nats://HOST:PORT?sync=always or s3://BUCKET/PREFIX; default: the folder durable in the state root. Nodes that work together share it." placeholder:"URL" yaml:"durable"`

	NATS `embed:"" yaml:",inline"`
}

// WithDefaults fills in the stores that were not named: on the node's NATS servers if it has some, and
// else in the state root.
func (s Stores) WithDefaults() Stores {
	if s.NATSURL() != "" {
		leases, durable := s.NATS.stores()
		s.Leases, s.Durable = cmp.Or(s.Leases, leases), cmp.Or(s.Durable, durable)
	}
	if s.Leases == "" {
		s.Leases = "sqlite:" + filepath.Join(s.StateRoot, "leases.db")
	}
	if s.Durable == "" {
		s.Durable = "dir:" + filepath.Join(s.StateRoot, "durable")
	}
	return s
}

// Config is everything that can be set about a node. The yaml tags are the names in the file and in
// the output of `node config`; the flags have - for _.
type Config struct {
	Stores `embed:"" yaml:",inline"`

	Migrate  bool   `help:"Create the schema of a postgres or mysql lease store if there is none; the account of the URL then owns it." yaml:"migrate"`
	NodeName string `help:"Name of the node in owner ids; default: the host name." yaml:"node_name"`

	Listen            string        `default:"127.0.0.1:7070" help:"Address of the HTTP API. Anything but loopback needs a token file." group:"http" yaml:"listen"`
	TokenFile         string        `help:"File with bearer tokens, one a line; # begins a comment." placeholder:"FILE" group:"http" yaml:"token_file"`
	MaxBody           int64         `default:"16777216" help:"Largest request body in bytes." group:"http" yaml:"max_body"`
	MaxHeader         int           `default:"16384" help:"Largest request header in bytes." group:"http" yaml:"max_header"`
	Insecure          string        `help:"Names of what is refused otherwise, joined by commas: readable_secrets, writable_state_root, plain_http, open_nats." placeholder:"NAMES" group:"http" yaml:"insecure,omitempty"`
	MaxConnections    int           `default:"1024" help:"Bound of the connections to the HTTP API, and of those of clients to an embedded NATS server." group:"http" yaml:"max_connections"`
	ReadHeaderTimeout time.Duration `default:"10s" help:"Time to receive a request's header." group:"http" yaml:"read_header_timeout"`
	ReadTimeout       time.Duration `default:"1m" help:"Time to receive a whole request." group:"http" yaml:"read_timeout"`
	KeepAlive         time.Duration `default:"2m" help:"Time that an unused connection stays open." group:"http" yaml:"keep_alive"`
	RequestTimeout    time.Duration `default:"30s" help:"Deadline of a request that names none." group:"http" yaml:"request_timeout"`
	MaxTimeout        time.Duration `default:"5m" help:"Latest deadline that a request may name." group:"http" yaml:"max_timeout"`
	ShutdownTimeout   time.Duration `default:"1m" help:"Time for the handoffs after SIGTERM; what is left then is abandoned." group:"http" yaml:"shutdown_timeout"`
	ShutdownLinger    time.Duration `default:"500ms" help:"Time to go on answering that the node is draining, after the handoffs." group:"http" yaml:"shutdown_linger"`

	TLSCert     string `name:"tls-cert" help:"Certificate of the HTTP API, in PEM; with it the API speaks HTTPS only. Read again when it changes." placeholder:"FILE" group:"http" yaml:"tls_cert"`
	TLSKey      string `name:"tls-key" help:"Key of the certificate, in PEM." placeholder:"FILE" group:"http" yaml:"tls_key"`
	TLSClientCA string `name:"tls-client-ca" help:"Authorities of client certificates, in PEM; with it every client needs one." placeholder:"FILE" group:"http" yaml:"tls_client_ca"`

	NATSClusterListen string        `name:"nats-cluster-listen" help:"Where the other members' embedded servers reach this one; without it the server stands alone. Anything but loopback needs --nats-config." placeholder:"HOST:PORT" group:"cluster" yaml:"nats_cluster_listen"`
	NATSConfig        string        `name:"nats-config" help:"Configuration file of nats-server for the embedded server: authorization, accounts, TLS, limits. What the other settings say is set over it." placeholder:"FILE" group:"cluster" yaml:"nats_config"`
	StartTimeout      time.Duration `default:"2m" help:"Time that an embedded server may take to join its cluster." group:"cluster" yaml:"start_timeout"`

	OrgKey map[string]string `help:"File with the hex key that an organization derives tenant ids with, as ORG=FILE; in YAML: orgs: {ORG: {key_file: FILE}}." placeholder:"ORG=FILE" mapsep:"," yaml:"-"`

	TTL            time.Duration `name:"ttl" default:"10s" help:"A lease's time to live: what a crash keeps others waiting." group:"lease" yaml:"ttl"`
	Margin         time.Duration `help:"What a holder gives up at the end of its lease, for clocks that drift; default: ttl/4." group:"lease" yaml:"margin"`
	RenewEvery     time.Duration `help:"Pause between renewals; default: ttl/5." group:"lease" yaml:"renew_every"`
	StoreTimeout   time.Duration `help:"Bound of one request to the lease store; default: ttl/4." group:"lease" yaml:"store_timeout"`
	DurableTimeout time.Duration `default:"30s" help:"Bound of one request to the durable store." group:"lease" yaml:"durable_timeout"`

	SnapshotEvery   time.Duration `default:"5s" help:"Pause between snapshots of a tenant that was written to: what a crash may lose." group:"copies" yaml:"snapshot_every"`
	MaxUnsaved      time.Duration `help:"Age of the oldest acknowledged write that no snapshot holds, beyond which a tenant refuses writes; default: 10 * snapshot_every." group:"copies" yaml:"max_unsaved"`
	MaxUnsavedBytes int64         `default:"268435456" help:"The same by the bytes that were written since." group:"copies" yaml:"max_unsaved_bytes"`
	Retain          int           `default:"0" help:"How many snapshots older than the newest are kept." group:"copies" yaml:"retain"`
	RetainAge       time.Duration `default:"0s" help:"Snapshots younger than this are kept." group:"copies" yaml:"retain_age"`
	SweepEvery      time.Duration `default:"10m" help:"Pause between sweeps of what forgotten tenants left behind." group:"copies" yaml:"sweep_every"`
	SetAsideFor     time.Duration `default:"24h" help:"Time that local files of an ended ownership are kept." group:"copies" yaml:"set_aside_for"`

	Heartbeat      time.Duration `default:"500ms" help:"Pause between two heartbeats of a member of a cluster." group:"cluster" yaml:"heartbeat"`
	MovesPerSecond int           `default:"50" help:"Tenants that this node hands to others in a second after a join." group:"cluster" yaml:"moves_per_second"`
	MoveParallel   int           `default:"4" help:"Tenants that this node hands to other members at a time." group:"cluster" yaml:"move_parallel"`

	IdleAfter         time.Duration `default:"10m" help:"Close a tenant that nobody used for so long; negative: never." group:"limits" yaml:"idle_after"`
	MaxOpen           int           `default:"10000" help:"Bound of the open tenants." group:"limits" yaml:"max_open"`
	MaxRequests       int           `default:"10000" help:"Bound of the requests in flight on the node." group:"limits" yaml:"max_requests"`
	MaxTenantRequests int           `default:"1000" help:"Bound of the requests in flight on one tenant." group:"limits" yaml:"max_tenant_requests"`
	MaxRequestBytes   int64         `default:"268435456" help:"Bound in bytes of all requests in flight on the node, and of their answers." group:"limits" yaml:"max_request_bytes"`
	MaxTransfers      int           `default:"8" help:"Bound of the snapshots and restores under way, each with a whole image in memory." group:"limits" yaml:"max_transfers"`
	HandoffParallel   int           `default:"32" help:"Bound of the handoffs of a shutdown that run at a time." group:"limits" yaml:"handoff_parallel"`
	OpenTimeout       time.Duration `default:"10m" help:"Bound of an open, restore included." group:"limits" yaml:"open_timeout"`
	MaxRows           int           `default:"10000" help:"Largest number of rows of a query, and of events in a page." group:"limits" yaml:"max_rows"`
	MaxResult         int64         `default:"8388608" help:"Largest result in bytes." group:"limits" yaml:"max_result"`
	MaxValue          int           `default:"16777216" help:"Largest single value in a ledger in bytes." group:"limits" yaml:"max_value"`
	MaxSQL            int           `name:"max-sql" default:"262144" help:"Longest SQL text in bytes." group:"limits" yaml:"max_sql"`
	MaxImage          int64         `default:"1073741824" help:"Largest ledger in bytes: a write that would make a ledger larger is refused, since it could not be copied." group:"limits" yaml:"max_image"`
	MaxQueries        int           `default:"4" help:"Bound of the queries that run at a time, each in a process of its own." group:"limits" yaml:"max_queries"`
	QueryMemory       int64         `default:"268435456" help:"Bound in bytes of what SQLite may hold in memory for one query." group:"limits" yaml:"query_memory"`
	QueryTimeout      time.Duration `default:"10s" help:"Bound of a read." group:"limits" yaml:"query_timeout"`

	LogFormat string `default:"text" help:"text or json." group:"log" yaml:"log_format"`
	LogLevel  string `default:"info" help:"debug, info, warn or error." group:"log" yaml:"log_level"`

	Planted       string `help:"Protocol rules to switch off, for the drill only." placeholder:"NAMES" group:"drill" yaml:"planted,omitempty"`
	UnsafePlanted bool   `help:"Needed with --planted: tenants may lose data." group:"drill" yaml:"unsafe_planted,omitempty"`
}

// Effective fills in what was not set and follows from other settings.
func (c Config) Effective() Config {
	c.Stores = c.Stores.WithDefaults()
	for v, d := range map[*time.Duration]time.Duration{
		&c.Margin: (c.TTL / 4).Truncate(time.Millisecond), &c.RenewEvery: c.TTL / 5, &c.StoreTimeout: c.TTL / 4,
		&c.MaxUnsaved: 10 * c.SnapshotEvery,
	} {
		if *v == 0 {
			*v = d
		}
	}
	return c
}

// Redacted is Effective without secrets, for printing.
func (c Config) Redacted() Config {
	c = c.Effective()
	c.Leases, c.Durable, c.NATS.URL = storeurl.Redact(c.Leases), storeurl.Redact(c.Durable), storeurl.Redact(c.NATS.URL)
	c.NATS.Params = storeurl.RedactText(c.NATS.Params)
	return c
}

// Loopback reports whether the API can be reached from this machine only. A host name other than
// localhost does not count: what it means can change.
func (c Config) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || (ip != nil && ip.IsLoopback())
}

// Node returns the part of the configuration that the runtime takes. The stores, the log and the
// metrics are the caller's to add.
func (c Config) Node() (actors.Config, error) {
	faults, err := planted.Parse(c.Planted)
	if err != nil {
		return actors.Config{}, &messages.Error{Code: messages.CodeInvalidArgument, Message: err.Error()}
	}
	root, err := filepath.Abs(c.StateRoot)
	if err != nil {
		return actors.Config{}, &messages.Error{Code: messages.CodeStorage, Message: "the working directory is gone", Err: err}
	}
	return actors.Config{
		NodeName: c.NodeName, StateRoot: root,
		TTL: c.TTL, Margin: c.Margin, RenewEvery: c.RenewEvery, StoreTimeout: c.StoreTimeout, DurableTimeout: c.DurableTimeout,
		SnapshotEvery: c.SnapshotEvery, MaxUnsaved: c.MaxUnsaved, MaxUnsavedBytes: c.MaxUnsavedBytes, SweepEvery: c.SweepEvery, SetAsideFor: c.SetAsideFor, IdleAfter: c.IdleAfter,
		Retention: snapshotactor.Retention{Keep: c.Retain, MinAge: c.RetainAge},
		MaxOpen:   c.MaxOpen, MaxRequests: c.MaxRequests, MaxTenantRequests: c.MaxTenantRequests, MaxRequestBytes: c.MaxRequestBytes, MaxTransfers: c.MaxTransfers,
		MaxQueries: c.MaxQueries, QueryProcesses: true, QueryMemory: c.QueryMemory,
		HandoffParallel: c.HandoffParallel, RequestTimeout: c.RequestTimeout, OpenTimeout: c.OpenTimeout,
		Limits: ledgeractor.Limits{
			MaxRows: c.MaxRows, MaxBytes: c.MaxResult, MaxValueBytes: c.MaxValue, MaxSQLBytes: c.MaxSQL,
			MaxImageBytes: c.MaxImage, QueryTimeout: c.QueryTimeout, CallTimeout: c.RequestTimeout,
		},
		Planted: faults,
	}, nil
}
