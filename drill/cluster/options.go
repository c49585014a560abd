package cluster

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/record"
)

// Step is something that happens to the cluster.
type Step string

// The steps, in the order of a full run.
const (
	Rolling    Step = "rolling"     // every node is stopped with SIGTERM and started again, one after the other
	Upgrade    Step = "upgrade"     // every node gets the second version of the application, one after the other
	Rollback   Step = "rollback"    // every node gets the first version again, one after the other
	Join       Step = "join"        // one more node comes and gets its share
	Leave      Step = "leave"       // it goes again
	Kill       Step = "kill"        // a node dies by kill -9, and is started again
	Freeze     Step = "freeze"      // a node stands still by SIGSTOP, and goes on
	EngineDown Step = "engine-down" // NATS is killed, and started again after three TTLs
)

// Steps are all steps. With NATS inside the nodes there is no engine that could be down alone.
var Steps = []Step{Rolling, Upgrade, Rollback, Join, Leave, Kill, Freeze, EngineDown}

// StepNames joins the steps for a message.
func StepNames() string {
	names := make([]string, len(Steps))
	for i, s := range Steps {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// Options says what a run is to do. Dir, Node and Server are needed.
type Options struct {
	Nodes, Tenants int
	// Rate is the number of requests in a second, over all tenants.
	Rate int
	// TTL of the leases; margin and renewals follow from it.
	TTL time.Duration
	// SnapshotEvery is the pause between snapshots of a tenant that was written to, and so the declared loss of a crash; 0: 5 s, a
	// node's own default.
	SnapshotEvery time.Duration
	// Frozen is how long a node stands still.
	Frozen time.Duration
	// Slack is added to every bound of time that a step is held to: for machines that are busy with other things.
	Slack time.Duration
	// Embedded makes every node run a NATS server inside itself, in a cluster of three.
	Embedded bool
	// Leases and Durable are the kinds of the stores; "": NATS. Members always talk over NATS.
	Leases, Durable engine.Kind
	// Steps to take, in this order; nil: all that the other options allow.
	Steps []Step
	// Dir is the folder of the run. It must be empty, or not exist yet.
	Dir string
	// Node is the command line that is a node (cmd/node with the application that AppFlag names), Server the one that becomes a server (engine.Serve).
	Node, Server []string
	// Out is told what happens while it happens; nil: nobody.
	Out io.Writer
}

func (o Options) withDefaults() Options {
	if o.Leases == "" {
		o.Leases = engine.NATS
	}
	if o.Durable == "" {
		o.Durable = engine.NATS
	}
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = 5 * time.Second
	}
	if o.Steps == nil {
		for _, s := range Steps {
			if s != EngineDown || !o.Embedded {
				o.Steps = append(o.Steps, s)
			}
		}
	}
	return o
}

// tooLate is how late the machine may be: the margin of the nodes' leases, and the slack.
func (o Options) tooLate() time.Duration { return o.TTL/4 + o.Slack }

// Validate returns an error for what cannot work; nothing is changed.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case o.Nodes < 2 || o.Nodes > 20:
		return fmt.Errorf("nodes: from 2 to 20, not %d", o.Nodes)
	case o.Embedded && o.Nodes != 3:
		return fmt.Errorf("nodes with NATS inside are three, not %d", o.Nodes)
	case o.Embedded && (o.Leases != engine.NATS || o.Durable != engine.NATS):
		return errors.New("nodes with NATS inside have their stores there")
	case !slices.Contains([]engine.Kind{engine.NATS, engine.SQLite, engine.Postgres}, o.Leases):
		return fmt.Errorf("leases of a cluster drill: nats, sqlite or postgres, not %q", o.Leases)
	case !slices.Contains([]engine.Kind{engine.NATS, engine.Dir}, o.Durable):
		return fmt.Errorf("durable store of a cluster drill: nats or dir, not %q", o.Durable)
	case o.Tenants < 1 || o.Tenants > 5000:
		return fmt.Errorf("tenants: from 1 to 5000, not %d", o.Tenants)
	case o.Rate < 1 || o.Rate > 5000:
		return fmt.Errorf("rate: from 1 to 5000 requests a second, not %d", o.Rate)
	case o.TTL < time.Second || o.TTL > time.Minute:
		return fmt.Errorf("ttl: from 1s to 1m, not %v", o.TTL)
	case o.SnapshotEvery < 100*time.Millisecond || o.SnapshotEvery > time.Minute:
		return fmt.Errorf("pause between snapshots: from 100ms to 1m, not %v", o.SnapshotEvery)
	case o.Frozen < 2*o.TTL:
		return fmt.Errorf("a freeze of %v does not outlast two leases of %v", o.Frozen, o.TTL)
	case o.Slack < 0:
		return fmt.Errorf("slack: not negative, as %v", o.Slack)
	case o.Dir == "" || len(o.Node) == 0 || len(o.Server) == 0:
		return errors.New("a run needs a folder, and the commands that start a node and a server")
	}
	for _, s := range o.Steps {
		switch {
		case !slices.Contains(Steps, s):
			return fmt.Errorf("unknown step %q", s)
		case s == EngineDown && (o.Embedded || o.Leases != engine.NATS):
			return errors.New("engine-down needs leases in a NATS server of its own")
		case s == Leave && !slices.Contains(o.Steps, Join):
			return errors.New("who leaves is who joined: the step leave needs the step join")
		}
	}
	return record.CheckFolder(o.Dir)
}
