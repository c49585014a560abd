package run

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/messages"
)

// Options says what a run is to do. Dir and Exe are needed.
type Options struct {
	Replicas int
	Tenants  int
	Writers  int           // per tenant
	Pace     time.Duration // between two writes of a writer
	// Duration is how long the schedule is meant to take; the steps decide how long it really does.
	Duration time.Duration
	Seed     uint64
	// Dir is the folder of the run. It must be empty, or not exist yet.
	Dir string
	// Break names a deliberately broken part; "": none. See Breaks.
	Break string
	// Leases and Durable are the kinds of the stores; "": the lease file, and the directory.
	Leases, Durable engine.Kind
	// Exe is the command line that starts a replica; its configuration is appended.
	Exe []string
	// Server is the command line that becomes a server (engine.Serve); NATS and S3 need it.
	Server []string
	// Out is told what happens while it happens; nil: nobody.
	Out io.Writer
	// Only restricts the schedule to these steps; nil: all.
	Only []Step
}

// withDefaults fills in what is empty.
func (o Options) withDefaults() Options {
	if o.Leases == "" {
		o.Leases = engine.SQLite
	}
	if o.Durable == "" {
		o.Durable = engine.Dir
	}
	return o
}

// HasServer reports whether one of the stores needs a server.
func (o Options) HasServer() bool {
	o = o.withDefaults()
	return o.Leases.HasServer() || o.Durable.HasServer()
}

// Validate returns an error for what cannot work; nothing is changed.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case !slices.Contains(engine.LeaseKinds, o.Leases):
		return fmt.Errorf("leases: one of %s, not %q", engine.Names(engine.LeaseKinds), o.Leases)
	case !slices.Contains(engine.DurableKinds, o.Durable):
		return fmt.Errorf("durable: one of %s, not %q", engine.Names(engine.DurableKinds), o.Durable)
	case o.HasServer() && len(o.Server) == 0:
		return fmt.Errorf("a store with a server needs a command that becomes one")
	case o.Replicas < 2 || o.Replicas > 200:
		return fmt.Errorf("replicas: from 2 to 200, not %d", o.Replicas)
	case o.Tenants < 1 || o.Tenants > 500:
		return fmt.Errorf("tenants: from 1 to 500, not %d", o.Tenants)
	case o.Writers < 1 || o.Writers > 64:
		return fmt.Errorf("writers: from 1 to 64, not %d", o.Writers)
	case o.Pace < 0 || o.Duration < 0:
		return fmt.Errorf("pace and duration must not be negative")
	case o.Dir == "" || len(o.Exe) == 0:
		return fmt.Errorf("a run needs a folder, and a command that starts a replica")
	}
	if _, err := breakNamed(o.Break); err != nil {
		return err
	}
	for _, s := range o.Only {
		if _, ok := costs[s]; !ok {
			return fmt.Errorf("unknown step %q", s)
		}
		if s.needsServer() && !o.HasServer() {
			return fmt.Errorf("the step %q needs a store with a server", s)
		}
	}
	return record.CheckFolder(o.Dir)
}

// Org is the organization of the drill's tenants.
const Org messages.OrgID = "drill"

// keys returns the tenants of a run. They are the same in every run.
func keys(n int) ([]messages.Key, error) {
	var out []messages.Key
	for i := range n {
		id, err := messages.DeriveTenant(make([]byte, 32), "https://drill.example", fmt.Sprintf("user-%d", i+1))
		if err != nil {
			return nil, err
		}
		out = append(out, messages.Key{Org: Org, Tenant: id})
	}
	return out, nil
}
