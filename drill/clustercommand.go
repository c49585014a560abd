package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/leasehold/leasehold/cmd/node/cli"
	"github.com/leasehold/leasehold/cmd/node/daemon/embedded"
	"github.com/leasehold/leasehold/cmd/node/storeurl/engines"
	"github.com/leasehold/leasehold/drill/cluster"
	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/slow"
)

type clusterCommand struct {
	Nodes    int           `default:"3" help:"Nodes."`
	Tenants  int           `default:"300" help:"Tenants."`
	Rate     int           `default:"200" help:"Requests in a second, over all tenants."`
	TTL      time.Duration `name:"ttl" default:"3s" help:"Of the leases."`
	Every    time.Duration `name:"snapshot-every" default:"5s" help:"Pause between snapshots of a tenant that was written to: what a crash may lose."`
	Frozen   time.Duration `default:"10s" help:"How long a node stands still."`
	Slack    time.Duration `help:"Added to every bound of time that a step is held to, for busy machines."`
	Embedded bool          `name:"nats-embedded" help:"Every node runs a NATS server inside itself."`
	Leases   string        `default:"nats" help:"Where the leases are: nats, sqlite or postgres."`
	Durable  string        `default:"nats" help:"Where the durable copies are: nats or dir."`
	Steps    []string      `help:"Only these steps, in this order: ${clustersteps}." sep:","`
	Dir      string        `help:"Folder of the run, which must be empty; it is kept. Default: a temporary one."`
	Report   string        `help:"Write the verdict as JSON into this file."`
	Quiet    bool          `help:"Print the tables only."`
}

func (c *clusterCommand) Run(ctx context.Context, to *console) (err error) {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	opts := cluster.Options{Nodes: c.Nodes, Tenants: c.Tenants, Rate: c.Rate, TTL: c.TTL, SnapshotEvery: c.Every, Frozen: c.Frozen, Slack: c.Slack, Embedded: c.Embedded,
		Leases: engine.Kind(c.Leases), Durable: engine.Kind(c.Durable), Dir: c.Dir, Node: []string{exe, "node"}, Server: []string{exe, "server"}, Out: to.out}
	if c.Quiet {
		opts.Out = nil
	}
	for _, s := range c.Steps {
		opts.Steps = append(opts.Steps, cluster.Step(s))
	}
	if opts.Dir == "" {
		if opts.Dir, err = os.MkdirTemp("", "leasehold-drill-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(opts.Dir)) }()
	}
	if err := opts.Validate(); err != nil {
		return usageError{err}
	}
	verdict, err := cluster.Run(ctx, opts)
	if err != nil {
		return err
	}
	if err := verdict.Print(to.out); err != nil {
		return err
	}
	if c.Report != "" {
		if err := writeJSON(c.Report, verdict); err != nil {
			return err
		}
	}
	outcome, err := outcomeOfCluster(verdict)
	fmt.Fprintf(to.out, "\n%.1f s: %s\n", verdict.Took.Seconds(), outcome)
	return err
}

// outcomeOfCluster says in one line what a run has shown, and returns the error that stands for it.
func outcomeOfCluster(v cluster.Verdict) (string, error) {
	switch {
	case v.OK():
		return "everything holds", nil
	case v.CouldNotJudge():
		return fmt.Sprintf("%v (%v)", slow.ErrTooSlow, v.Slow), slow.ErrTooSlow
	}
	return "something is BROKEN", errBroken
}

// asNode is a node of a cluster drill: cmd/node, in this program, with the version of the drill's application that the first
// argument names.
func asNode(args []string) int {
	version := ""
	if len(args) > 0 {
		version, _ = strings.CutPrefix(args[0], cluster.AppFlag)
		args = args[1:]
	}
	app, err := cluster.App(version)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	return cli.Program{App: app, Schemes: engines.Schemes(), Cluster: embedded.NATS{}}.Main(args)
}
