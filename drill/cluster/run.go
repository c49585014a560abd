package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/slow"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
)

// drill is one run.
type drill struct {
	opts    Options
	where   engine.Stores
	servers []*engine.Server
	natsAt  int    // which of the servers is NATS
	natsURL string // for clients
	nodes   []*node
	former  []*node // that have left
	peers   []string
	ports   [][2]string // by node: NATS for clients, and for routes; embedded only
	keys    []messages.Key
	http    *http.Client
	load    *load
	crashes []crash
	later   []func(*ending) error
	print   func(format string, args ...any)
}

// crash is when a node stopped serving without having saved.
type crash struct {
	node string
	at   time.Time
}

func (d *drill) crashed(node string, at time.Time) { d.crashes = append(d.crashes, crash{node, at}) }

// Run does one whole drill. An error says that it could not be done; what did not hold is in the verdict. No process is
// left behind in any case.
func Run(ctx context.Context, opts Options) (v Verdict, err error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return v, err
	}
	if err := os.MkdirAll(filepath.Join(opts.Dir, "logs"), 0o700); err != nil {
		return v, fmt.Errorf("the folder of the run: %w", err)
	}
	begun := time.Now()
	meter := slow.Start(opts.Dir)
	defer func() {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = meter.Excuse(err, opts.tooLate())
		}
		meter.Stop()
	}()
	d := &drill{opts: opts, print: record.Printer(opts.Out, begun), http: &http.Client{Transport: &http.Transport{}}}
	defer d.http.CloseIdleConnections()
	defer func() { err = errors.Join(err, d.killAll()) }()
	if err := d.start(ctx); err != nil {
		return v, err
	}
	transport, err := natsconn.Config{URL: d.natsURL, Name: "drill"}.Connect(ctx)
	if err != nil {
		return v, err
	}
	defer transport.Close()
	nats, err := client.NewNATS(transport, "")
	if err != nil {
		return v, err
	}
	app, err := client.New(nats, client.Config{AttemptTimeout: min(opts.TTL/2, 1500*time.Millisecond)})
	if err != nil {
		return v, err
	}
	defer app.Close()
	d.load = newLoad(app, d.keys, opts.Rate)
	warm := time.Now()
	if err := d.load.warm(ctx, 16); err != nil {
		return v, err
	}
	d.print("   %d tenants opened in %v", len(d.keys), time.Since(warm).Round(time.Millisecond))
	d.load.start()
	var end sync.Once
	stop := func() { end.Do(d.load.end) }
	defer stop()
	for _, s := range opts.Steps {
		f, err := d.step(ctx, s)
		if err != nil {
			return v, err
		}
		v.Steps = append(v.Steps, f)
	}
	stop()
	if err := d.judge(ctx, &v); err != nil {
		return v, err
	}
	v.Took, v.Slow = time.Since(begun), meter.Stop()
	v.TooSlow = v.Slow.TooSlow(opts.tooLate())
	return v, nil
}

func (d *drill) killAll() error {
	var errs []error
	for _, n := range append(d.nodes, d.former...) {
		errs = append(errs, n.kill())
	}
	for _, s := range d.servers {
		errs = append(errs, s.Stop())
	}
	return errors.Join(errs...)
}

// start starts the servers and the nodes.
func (d *drill) start(ctx context.Context) (err error) {
	for i := range d.opts.Tenants {
		id, err := messages.DeriveTenant(make([]byte, 32), "https://drill.example", fmt.Sprintf("user-%d", i+1))
		if err != nil {
			return err
		}
		d.keys = append(d.keys, messages.Key{Org: "drill", Tenant: id})
	}
	d.print("-- %d nodes, %d tenants, %d requests a second, ttl %v, leases %s, durable %s%s", d.opts.Nodes, d.opts.Tenants, d.opts.Rate, d.opts.TTL,
		d.opts.Leases, d.opts.Durable, map[bool]string{true: ", NATS inside the nodes"}[d.opts.Embedded])
	if d.opts.Embedded {
		err = d.startEmbedded()
	} else {
		err = d.startServers(ctx)
	}
	if err != nil {
		return err
	}
	for i := range d.opts.Nodes {
		d.nodes = append(d.nodes, d.newNode(fmt.Sprintf("n%d", i+1), i))
	}
	// All at once: a cluster with NATS inside forms only when all of them run.
	failed := make(chan error, len(d.nodes))
	starting, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	for _, n := range d.nodes {
		go func() { failed <- n.start(starting) }()
	}
	var errs []error
	for range d.nodes {
		errs = append(errs, <-failed)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return d.members(starting, len(d.nodes))
}

// startServers starts what the stores, and the members, need.
func (d *drill) startServers(ctx context.Context) error {
	d.where = engine.Stores{Leases: engine.Store{Kind: d.opts.Leases, At: filepath.Join(d.opts.Dir, "leases.db")},
		Durable: engine.Store{Kind: d.opts.Durable, At: filepath.Join(d.opts.Dir, "durable")}}
	where, servers, err := engine.Start(ctx, d.where, filepath.Join(d.opts.Dir, "servers"), d.opts.Server)
	if err != nil {
		return err
	}
	d.where, d.servers = where, servers
	switch engine.NATS {
	case where.Leases.Kind:
		d.natsURL = where.Leases.At
	case where.Durable.Kind:
		d.natsURL = where.Durable.At
	default: // for the members alone
		alone, more, err := engine.Start(ctx, engine.Stores{Leases: engine.Store{Kind: engine.NATS}, Durable: engine.Store{Kind: engine.Dir}},
			filepath.Join(d.opts.Dir, "servers"), d.opts.Server)
		d.servers = append(d.servers, more...)
		if err != nil {
			return err
		}
		d.natsURL = alone.Leases.At
	}
	for i, s := range d.servers {
		if s.Kind == engine.NATS {
			d.natsAt = i
		}
	}
	return nil
}

// startEmbedded finds ports for the servers inside the nodes. Somebody may take one before it is used: then a node
// does not start.
func (d *drill) startEmbedded() error {
	var urls []string
	for range d.opts.Nodes {
		var pair [2]string
		for i := range pair {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer l.Close() // all at the end, so that no port is found twice
			pair[i] = l.Addr().String()
		}
		d.ports, d.peers, urls = append(d.ports, pair), append(d.peers, pair[1]), append(urls, "nats://"+pair[0])
	}
	d.natsURL = strings.Join(urls, ",")
	at := engine.Store{Kind: engine.NATS, At: d.natsURL}
	d.where = engine.Stores{Leases: at, Durable: at}
	return nil
}

// newNode describes a node. index is its place among the first ones; -1: it comes later, and runs no server.
func (d *drill) newNode(name string, index int) *node {
	ttl := d.opts.TTL
	args := []string{"run", "--node-name=" + name, "--state-root=" + filepath.Join(d.opts.Dir, name), "--listen=127.0.0.1:0",
		"--ttl=" + ttl.String(), "--margin=" + (ttl / 4).String(), "--renew-every=" + (ttl / 5).String(), "--store-timeout=" + (ttl / 3).String(),
		"--snapshot-every=" + d.opts.SnapshotEvery.String(), "--idle-after=-1s", "--shutdown-timeout=1m", "--log-format=json"}
	switch {
	case d.opts.Embedded && index >= 0:
		args = append(args, "--nats-embedded", "--nats-listen="+d.ports[index][0], "--nats-cluster-listen="+d.ports[index][1], "--nats-routes="+strings.Join(d.peers, ","))
	case d.opts.Embedded:
		args = append(args, "--nats="+strings.ReplaceAll(d.natsURL, ",nats://", ",")+"?sync=always&replicas=3")
	default:
		args = append(args, "--nats="+d.natsURL+"?sync=always&"+keepEntries)
		if d.where.Leases.Kind != engine.NATS {
			args = append(args, "--leases="+storeURL(d.where.Leases))
		}
		if d.where.Durable.Kind != engine.NATS {
			args = append(args, "--durable="+storeURL(d.where.Durable))
		}
	}
	return &node{name: name, http: d.http, command: d.opts.Node, app: "1", args: args, logs: filepath.Join(d.opts.Dir, "logs")}
}

// keepEntries makes the audit trails hold a whole run.
const keepEntries = "keep_entries=100000"

// storeURL is how cmd/node names a store that is not in NATS.
func storeURL(s engine.Store) string {
	if s.Kind == engine.Postgres {
		return s.At // a URL as it is
	}
	return string(s.Kind) + ":" + s.At
}
