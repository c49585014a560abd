package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages/planted"
)

// Options says what is simulated. The zero value is a fleet of three nodes and two tenants, under
// the profile that belongs to seed 0, for six simulated minutes.
type Options struct {
	// Seed decides everything that happens: faults, clients, delays.
	Seed uint64
	// Duration is simulated time, without the finale in which all faults end; default 6 min.
	Duration time.Duration
	// Nodes and Tenants size the fleet; defaults 3 and 2.
	Nodes, Tenants int
	// Profile says what goes wrong; the zero Profile: the one of Profiles that the seed picks.
	Profile Profile
	// Planted switches protocol rules off.
	Planted planted.Set

	// Commands and Migrations are registered at every node, for Workload to use.
	Commands   map[string]ledgeractor.Command
	Migrations []ledgeractor.Migration
	// Workload, if set, is called again and again by one more client of each tenant, between the
	// built-in ones. Whatever error it returns must be a *messages.Error. It draws its chances from
	// r only, must not wait on anything but ctx, the tenant and time, and appends no event whose
	// SubjectID begins with "t-": those are the simulation's own.
	Workload func(ctx context.Context, r *rand.Rand, tenant *actors.Tenant) error
}

func (o Options) withDefaults() Options {
	if o.Duration == 0 {
		o.Duration = 6 * time.Minute
	}
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.Tenants == 0 {
		o.Tenants = 2
	}
	if o.Profile.Name == "" {
		all := Profiles()
		o.Profile = all[o.Seed%uint64(len(all))]
	}
	return o
}

// The fleet's settings. A lease's window is 11 s, and a request to the lease store may take longer
// than the margin, so that the rule about sent-at is at work.
const (
	ttl            = 15 * time.Second
	margin         = 4 * time.Second
	renewEvery     = 3 * time.Second
	storeTimeout   = 6 * time.Second
	durableTimeout = 5 * time.Second
	snapshotEvery  = 9 * time.Second
	sweepEvery     = 40 * time.Second
	openTimeout    = 60 * time.Second
	maxLanding     = 25 * time.Second // the longest that a request is under way
)
