package run

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Step names something that the drill does to the owner of a tenant.
type Step string

// The steps of a schedule.
const (
	// Kill: SIGKILL to the owner. Another node takes over when the lease has run out.
	Kill Step = "kill"
	// KillUpload: SIGKILL while an image is on its way.
	KillUpload Step = "kill-upload"
	// Handoff: SIGTERM to the owner under load; its writers keep their handles and go on.
	Handoff Step = "handoff"
	// Freeze: SIGSTOP past the lease. After SIGCONT the lease store is out of its reach for a while, so
	// that nothing but its own clock can fence it.
	Freeze Step = "freeze"
	// Outage: the owner cannot reach the lease store until its own clock has fenced it, but can before
	// its lease ends: it goes on at the same epoch. Half of the writers are in the middle of a
	// transaction then.
	Outage Step = "outage"
	// Watch: nothing is done to anybody.
	Watch Step = "watch"
	// LateUpload: SIGSTOP while an image is on its way. The successor is killed before its first
	// snapshot; then the first one wakes up, its upload lands, and it goes on to its manifest.
	LateUpload Step = "late-upload"
	// ServerKill: SIGKILL to the server of a store, with everything that it has open, and another start of it.
	ServerKill Step = "server-kill"
	// ServerStop: SIGSTOP to the server of a store past every lease, and SIGCONT: then it answers what it was
	// asked before.
	ServerStop Step = "server-stop"
	// Cut: the owner's connections to the servers are cut, and it gets no new ones, until others have taken over.
	Cut Step = "cut"
	// HalfClose: the servers' answers to the owner vanish on connections that stay open, until others have taken over.
	HalfClose Step = "half-close"
	// Slow: every answer, to all replicas, is held up.
	Slow Step = "slow"
	// LostAnswers: some of the answers to all replicas are swallowed, and the connection is closed.
	LostAnswers Step = "lost-answers"
	// Reset: all connections are reset again and again, in the middle of whatever passes.
	Reset Step = "reset"
)

// hitsServer reports whether a step is done to a server, and not to the owner of a tenant.
func (s Step) hitsServer() bool { return s == ServerKill || s == ServerStop }

// hitsWire reports whether a step is done to the connections of replicas with the servers.
func (s Step) hitsWire() bool {
	return s == Cut || s == HalfClose || s == Slow || s == LostAnswers || s == Reset
}

// needsServer reports whether a step needs a store with a server.
func (s Step) needsServer() bool { return s.hitsServer() || s.hitsWire() }

// costs is about how long each step takes with the drill's times.
var costs = map[Step]time.Duration{
	Kill:        2300 * time.Millisecond,
	KillUpload:  2500 * time.Millisecond,
	Handoff:     900 * time.Millisecond,
	Freeze:      3 * time.Second,
	Watch:       2 * time.Second,
	Outage:      2200 * time.Millisecond,
	LateUpload:  4500 * time.Millisecond,
	ServerKill:  2500 * time.Millisecond,
	ServerStop:  3 * time.Second,
	Cut:         3200 * time.Millisecond,
	HalfClose:   3500 * time.Millisecond,
	Slow:        3500 * time.Millisecond,
	LostAnswers: 3500 * time.Millisecond,
	Reset:       3500 * time.Millisecond,
}

// StepNames returns the names of all steps, in order.
func StepNames() []string {
	var names []string
	for s := range costs {
		names = append(names, string(s))
	}
	slices.Sort(names)
	return names
}

// round is what a schedule holds first, in the order of importance.
var round = []Step{Handoff, Freeze, Kill, Outage, LateUpload, KillUpload, Handoff}

// serverRound is the same where a store has a server.
var serverRound = []Step{Handoff, Cut, ServerKill, LostAnswers, HalfClose, ServerStop, Reset, Slow, LateUpload, Kill, Outage, KillUpload, Freeze, Handoff}

// DefaultDuration is what one round of a schedule takes, without or with a server.
func DefaultDuration(server bool) time.Duration {
	if server {
		return 40 * time.Second
	}
	return 18 * time.Second
}

// Planned is one step of a schedule.
type Planned struct {
	Step   Step `json:"step"`
	Tenant int  `json:"tenant"` // whose owner it is done to, from 0
	// After is the pause before it: it begins once every tenant is served again, and so much later.
	After time.Duration `json:"after_ns"`
}

// String returns the step as a schedule is printed.
func (p Planned) String() string {
	return fmt.Sprintf("%s t%d +%dms", p.Step, p.Tenant+1, p.After.Milliseconds())
}

// Schedule returns the steps of a run. It depends on its arguments only. Which process a step hits
// depends on who owns the tenant at that moment.
func Schedule(seed uint64, tenants int, duration time.Duration, only []Step) []Planned {
	random := rand.New(rand.NewPCG(seed, 0x1ea5e4011d))
	candidates := round
	if only != nil {
		candidates = only
	}
	var steps []Step
	left := duration
	for i := 0; ; i++ {
		s := candidates[i%len(candidates)]
		if i >= len(candidates) {
			s = candidates[random.IntN(len(candidates))]
		}
		if cost := costs[s]; cost <= left {
			steps, left = append(steps, s), left-cost
		}
		if i >= len(candidates)-1 && left < slices.MinFunc(candidates, cheaper).Cost() {
			break
		}
	}
	if len(steps) == 0 { // a schedule of nothing would prove nothing
		steps = candidates[:1]
	}
	random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	plan := make([]Planned, len(steps))
	for i, s := range steps {
		plan[i] = Planned{Step: s, Tenant: random.IntN(tenants), After: time.Duration(250+random.IntN(300)) * time.Millisecond}
	}
	return plan
}

// Cost is about how long a step takes.
func (s Step) Cost() time.Duration { return costs[s] }

func cheaper(a, b Step) int { return int(a.Cost() - b.Cost()) }
