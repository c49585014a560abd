// Package daemon runs a node as a process: it opens the stores, starts the runtime and its HTTP API,
// and hands every tenant off when it is told to stop.
//
// cmd/node is a daemon without application code. A program with migrations and commands of its own
// calls cli.Main with them, and is the same daemon in every other respect.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/internal/loglimit"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// App is an application's part of every ledger; the zero App has none.
type App struct {
	Migrations []ledgeractor.Migration
	Commands   map[string]ledgeractor.Command
}

// Options are what Run works with. All but App, Cluster and Now are needed.
type Options struct {
	Config  config.Config
	Schemes storeurl.Schemes
	App     App
	// Cluster runs the NATS server that a node with nats_embedded has in itself; nil: such a configuration is refused.
	Cluster Cluster
	// Stdout gets one line, "listening http://HOST:PORT" (https with TLS), once the node answers.
	Stdout io.Writer
	Log    *slog.Logger
	// Level is the level of Log, which SIGHUP sets anew; nil: it stays.
	Level *slog.LevelVar
	// Signals says when to stop: any signal begins the handoffs, and a further one changes nothing. There are two exceptions:
	// SIGHUP has files and settings read again, see Reread, and SIGQUIT and SIGABRT log the stacks of all goroutines first.
	Signals <-chan os.Signal
	// Reread returns the configuration as it stands now, for SIGHUP; nil: only the files that it names are read again.
	Reread func() (config.Config, error)
	// Now is the clock that the log's durations come from; nil: time.Now.
	Now func() time.Time
}

// ErrNotHandedOff is what Run returns, joined with the errors of each tenant, when a handoff failed.
var ErrNotHandedOff = errors.New("not every tenant was handed off; their leases end by themselves")

type daemon struct {
	Options
	node     *actors.Node
	api      *api.Server
	http     *http.Server
	listener net.Listener
	closers  []io.Closer
	member   Member // nil: the node is in no cluster

	secrets    *secrets
	configured bounds          // before the limit of file descriptors lowered them
	asked      context.Context // ends when the node is asked to stop
	ask        context.CancelFunc
}

// Run runs a node until a signal, or ctx, ends it. It returns nil if every tenant was handed off, and
// else ErrNotHandedOff, joined with errors that name the tenants (messages.Error). An
// invalid configuration is CodeInvalidArgument or CodeOutOfRange.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Config.Validate(o.Schemes, o.checker()); err != nil {
		return err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Config = o.Config.Effective()
	d := &daemon{Options: o}
	d.Config.Warn(d.Log)
	if d.secrets, err = readSecrets(o.Config, o.Log); err != nil {
		return err
	}
	d.asked, d.ask = context.WithCancel(ctx)
	defer d.ask()
	defer d.heedSignals()()
	started := false
	defer func() { err = errors.Join(err, d.close(!started)) }()
	starting, cancel := context.WithCancel(d.asked) // what was started does not depend on it
	err = d.start(starting)
	cancel()
	switch {
	case err != nil && d.asked.Err() != nil:
		return fmt.Errorf("stopped before the node was ready: %w", err)
	case err != nil:
		return err
	}
	started = true
	served := make(chan error, 1)
	address := d.serve(served)
	d.Log.Info("listening", "address", address, "auth", o.Config.TokenFile != "", "client_certificates", o.Config.TLSClientCA != "")
	_, _ = fmt.Fprintln(o.Stdout, "listening", address) // the log has it too
	select {
	case err := <-served: // never without an error
		return errors.Join(fmt.Errorf("http server: %w", err), d.stop())
	case <-d.asked.Done():
		return d.stop()
	}
}

// serve answers requests until the server is shut down, and returns its address.
func (d *daemon) serve(served chan<- error) string {
	address := d.listener.Addr().String()
	if d.http.TLSConfig != nil {
		go func() { served <- d.http.ServeTLS(d.listener, "", "") }()
		return "https://" + address
	}
	go func() { served <- d.http.Serve(d.listener) }()
	return "http://" + address
}

func (d *daemon) start(ctx context.Context) (err error) {
	c := d.Config
	// First, because it is what fails most often.
	if d.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w (another node? choose an address with --listen)", c.Listen, err)
	}
	keys, err := c.OrgKeys()
	if err != nil {
		return err
	}
	d.configured = bounds{c.MaxOpen, c.MaxConnections}
	bound := d.bound()
	d.Config.MaxOpen, d.Config.MaxConnections = bound.tenants, bound.connections
	c = d.Config
	lock, err := actors.LockRoot(c.StateRoot) // before anything in it is touched
	if err != nil {
		return err
	}
	d.closers = append(d.closers, lock)
	if err := d.startServer(ctx); err != nil {
		return err
	}
	leases, durable, err := stores.Open(ctx, d.openLeases, d.openDurable)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg, err := c.Node()
	if err != nil {
		return err
	}
	cfg.Lock, cfg.Leases, cfg.Durable, cfg.Registerer, cfg.Log = lock, leases, durable, registry, d.Log
	cfg.Migrations, cfg.Commands = d.App.Migrations, d.App.Commands
	if d.node, err = actors.Start(ctx, cfg); err != nil {
		return err
	}
	if err := d.join(ctx, registry); err != nil {
		return errors.Join(err, d.node.Abort())
	}
	apiConfig := api.Config{
		Node: d.node, Leases: leases, Durable: durable, Tokens: d.secrets.tokenSet(), OrgKeys: keys, MaxBody: c.MaxBody,
		RequestTimeout: c.RequestTimeout, MaxTimeout: c.MaxTimeout, Registry: registry, Log: d.Log,
	}
	if d.member != nil {
		apiConfig.Tenants, apiConfig.Members, apiConfig.Ready = d.member, d.member.View, d.member.Ready
	}
	if d.api, err = api.New(apiConfig); err != nil {
		return errors.Join(err, d.node.Abort())
	}
	connections, err := newConnections(c.MaxConnections, registry)
	if err != nil {
		return errors.Join(err, d.node.Abort())
	}
	d.http = &http.Server{
		Handler: d.secrets.admitting(d.api), TLSConfig: d.secrets.tls(), MaxHeaderBytes: c.MaxHeader, ReadHeaderTimeout: c.ReadHeaderTimeout, ReadTimeout: c.ReadTimeout,
		// An answer may come as late as a request's deadline, and takes time to be sent.
		WriteTimeout: c.MaxTimeout + c.ReadTimeout, IdleTimeout: c.KeepAlive,
		ConnState:   connections.changed,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return remember(ctx) },
		ErrorLog:    slog.NewLogLogger(loglimit.New(d.Log.Handler(), d.Now), slog.LevelWarn),
	}
	return nil
}

// stop hands the tenants off while the server answers: requests in flight are finished, new ones are
// told that the node drains.
func (d *daemon) stop() error {
	d.Log.Info("shutting down: handing every tenant off", "timeout", d.Config.ShutdownTimeout)
	if d.member == nil {
		d.api.Drain()
	} // else requests go on to other members, until the end
	ctx, cancel := context.WithTimeout(context.Background(), d.Config.ShutdownTimeout)
	defer cancel()
	return d.shutdown(ctx)
}

func (d *daemon) shutdown(ctx context.Context) error {
	d.leave(ctx)
	err := d.node.Shutdown(ctx)
	for _, failed := range tenantErrors(err) {
		d.Log.Error("a tenant was not handed off", "key", failed.Key, "code", failed.Code, "reason", failed.Reason)
	}
	if err != nil {
		err = errors.Join(ErrNotHandedOff, err)
	}
	d.depart(ctx)
	// Clients and load balancers need a moment to learn that this node is leaving.
	linger := time.NewTimer(d.Config.ShutdownLinger)
	defer linger.Stop()
	select {
	case <-linger.C:
	case <-ctx.Done():
	}
	if late := d.http.Shutdown(ctx); late != nil {
		return errors.Join(err, late, d.http.Close())
	}
	return err
}

// tenantErrors returns the errors of single tenants that are joined in err.
func tenantErrors(err error) []*messages.Error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*messages.Error
		for _, e := range joined.Unwrap() {
			out = append(out, tenantErrors(e)...)
		}
		return out
	}
	var e *messages.Error
	if errors.As(err, &e) && e.Key != "" {
		return []*messages.Error{e}
	}
	return nil
}
