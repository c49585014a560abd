package sim

import (
	"time"

	"github.com/leasehold/leasehold/snapshotactor"
)

// Profile says what goes wrong, and how often. A duration is the mean time between two of its kind,
// per node or per tenant; zero: never. Each has a stream of chances of its own.
type Profile struct {
	Name string

	// Per node.
	Crash      time.Duration // the process is killed, and started again some time later
	Freeze     time.Duration // the process is stopped (SIGSTOP) past its lease, and goes on
	Suspend    time.Duration // the same, and its clock does not count the time: the declared limit D6
	Outage     time.Duration // a store cannot be reached from the node
	Gray       time.Duration // a store answers late or not at all, while requests take effect
	GrayLeases time.Duration // the same of the lease store alone
	Pause      time.Duration // the process is stopped in the middle of a commit

	// Engine is the mean time between two outages of the lease store, now and then of both stores, for
	// every node at once and for up to four leases.
	Engine time.Duration

	// ThawOnList lets a stopped process go on when another node lists the objects of a tenant that it
	// held: in the middle of its successor's open.
	ThawOnList bool
	// StopOpening is the chance that a process is suspended just when it was granted a lease.
	StopOpening float64
	// StopPublishing is the chance that a process is stopped between an image and its manifest.
	StopPublishing float64
	// LastAnswer is the chance that a renewal is answered only just in time, and that the lease store
	// cannot be reached for a while after it.
	LastAnswer float64
	// LoseAcquire is the chance that an acquire takes effect and is not answered; once that was read
	// back, the lease store cannot be reached for a while.
	LoseAcquire float64

	// Per call, at any time.
	Lost       float64       // chance that a request, or else its answer, is lost
	Slow       float64       // chance that a request takes up to SlowFor
	SlowFor    time.Duration // at most maxLanding
	DeleteFail float64       // chance that a deletion is lost
	DeleteSlow float64       // chance that a deletion is late
	DeleteLong time.Duration // how long each deletion takes that is neither lost nor late

	// Per tenant.
	Handoff, Abandon, Snapshot, Forget time.Duration
	Compete                            time.Duration // somebody asks every node to open the tenant

	// Clocks, within what the margin covers.
	Lag  float64       // how much slower the nodes' clocks may run
	Jump time.Duration // the store's clock jumps by up to so much, once a minute

	// Rot damages the newest image of a tenant; an operator removes the snapshot that the failing
	// opens name. It needs a Retention that keeps older ones.
	Rot       time.Duration
	Retention snapshotactor.Retention
	// Reset gives the lease store its records of the very beginning back, in the middle of the run
	// and with all nodes down: outside of what the protocol can survive, but it must not be silent.
	Reset bool
	// Aged gives each tenant's snapshots numbers about to pass 999,999.
	Aged bool
	// IdleAfter closes idle tenants; zero: never.
	IdleAfter time.Duration
	// Think is the mean pause of a client between two requests; default 2 s.
	Think time.Duration
}

// Profiles returns the profiles through which the seeds go in turn.
func Profiles() []Profile {
	return []Profile{
		{Name: "calm", Handoff: 40 * time.Second, Snapshot: 30 * time.Second, Compete: time.Minute, IdleAfter: 20 * time.Second, Slow: 0.05, SlowFor: 2 * time.Second},
		{Name: "crashes", Crash: 50 * time.Second, Handoff: time.Minute, Abandon: 2 * time.Minute, Snapshot: 40 * time.Second, Slow: 0.1, SlowFor: 12 * time.Second, Lost: 0.01},
		{Name: "stores", Outage: 60 * time.Second, Gray: 60 * time.Second, Handoff: time.Minute, Abandon: 2 * time.Minute, Snapshot: 40 * time.Second, Lost: 0.03, Slow: 0.1, SlowFor: 12 * time.Second, Compete: 20 * time.Second},
		{Name: "freezes", Freeze: 40 * time.Second, Pause: 40 * time.Second, Handoff: time.Minute, Compete: 10 * time.Second, Slow: 0.1, SlowFor: 12 * time.Second, Snapshot: 30 * time.Second},
		{Name: "forgets", Forget: 40 * time.Second, Crash: 90 * time.Second, Handoff: time.Minute, Snapshot: 30 * time.Second, Lost: 0.05, DeleteFail: 0.3, DeleteSlow: 0.3, Slow: 0.2, SlowFor: 15 * time.Second},
		{Name: "clocks", Lag: 0.18, Jump: time.Second, Outage: 60 * time.Second, Gray: time.Minute, Crash: 2 * time.Minute, Compete: 10 * time.Second, Snapshot: 40 * time.Second},
		{Name: "suspends", Suspend: 45 * time.Second, Handoff: time.Minute, Compete: 10 * time.Second, Snapshot: 20 * time.Second, Slow: 0.2, SlowFor: 10 * time.Second},
		{Name: "mixed", Crash: 90 * time.Second, Freeze: 90 * time.Second, Pause: 90 * time.Second, Outage: 90 * time.Second, Gray: 90 * time.Second, Lost: 0.02, Slow: 0.1, SlowFor: 20 * time.Second,
			DeleteFail: 0.1, DeleteSlow: 0.1, Handoff: 50 * time.Second, Abandon: 2 * time.Minute, Forget: 2 * time.Minute, Snapshot: 40 * time.Second, Lag: 0.08, Jump: 500 * time.Millisecond, Compete: 20 * time.Second},
		{Name: "rot", Rot: 80 * time.Second, Crash: 90 * time.Second, Handoff: time.Minute, Snapshot: 20 * time.Second, Retention: snapshotactor.Retention{Keep: 3}},
		{Name: "reset", Reset: true, Crash: 2 * time.Minute, Handoff: time.Minute, Snapshot: 30 * time.Second},
		{Name: "openings", StopOpening: 0.4, Crash: time.Minute, Handoff: 40 * time.Second, Compete: 8 * time.Second, Slow: 0.3, SlowFor: 4 * time.Second},
		{Name: "acquires", LoseAcquire: 0.6, Crash: time.Minute, Handoff: 40 * time.Second, Abandon: time.Minute, Compete: 2 * time.Second, Think: 600 * time.Millisecond},
		{Name: "wakers", Freeze: time.Minute, StopPublishing: 0.3, ThawOnList: true, Compete: 4 * time.Second, Slow: 0.5, SlowFor: 5 * time.Second, Snapshot: 15 * time.Second, Think: time.Second},
		{Name: "grayleases", GrayLeases: 40 * time.Second, LastAnswer: 0.06, Compete: 3 * time.Second, Think: 700 * time.Millisecond, Handoff: 30 * time.Second, Abandon: time.Minute},
		{Name: "engine", Engine: 50 * time.Second, Handoff: 40 * time.Second, Snapshot: 40 * time.Second, Compete: 15 * time.Second, Think: time.Second},
		{Name: "longforgets", DeleteLong: 4 * time.Second, Forget: 70 * time.Second, Handoff: 10 * time.Second, Compete: 3 * time.Second, Retention: snapshotactor.Retention{Keep: 100}},
		{Name: "aged", Aged: true, Crash: 60 * time.Second, Handoff: 40 * time.Second, Snapshot: 30 * time.Second},
	}
}

// ProfileNamed returns a profile of Profiles, or the zero Profile.
func ProfileNamed(name string) Profile {
	for _, p := range Profiles() {
		if p.Name == name {
			return p
		}
	}
	return Profile{}
}
