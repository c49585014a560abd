package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// What the steps wait for, and hold the cluster to.
const (
	stepLimit = 2 * time.Minute
	// afterLease is how long after the end of a dead node's lease its tenants may take to be acknowledged elsewhere.
	afterLease = 500 * time.Millisecond
	// fullAgain is how long a node that goes on may take to be a full member.
	fullAgain = 2 * time.Second
	// election is what a NATS server that stood still with its node may add: others lead its streams now, and when it goes on it
	// may make them elect leaders anew, which takes 4 to 9 s by constants of nats-server.
	election = 10 * time.Second
	// aim is the longest gap of a tenant in a rolling restart that we aim for.
	aim = 250 * time.Millisecond
)

// step takes one step and returns what it came to. What waits for the end of the run is added there.
func (d *drill) step(ctx context.Context, s Step) (f Figure, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	d.print("-- %s", s)
	f = Figure{Name: string(s)}
	begun := time.Now()
	do := map[Step]func(context.Context, *Figure) error{Rolling: d.rolling, Upgrade: d.upgrade, Rollback: d.rollback, Join: d.join, Leave: d.leave, Kill: d.kill, Freeze: d.freeze, EngineDown: d.engineDown}[s]
	if err := do(ctx, &f); err != nil {
		return f, fmt.Errorf("%s: %w", s, err)
	}
	f.Begun, f.Took = begun.Round(0), time.Since(begun)
	ended := time.Now()
	d.load.settle(ended)
	all := d.load.during(begun, ended, nil)
	f.count(all)
	if f.Failed > 0 {
		f.break_("%d requests failed", f.Failed)
	}
	d.later = append(d.later, func(end *ending) error {
		gaps := handovers(end.windows, begun, ended)
		if f := end.figure(s); len(gaps) > 0 {
			f.Handovers, f.Without, f.WithoutHalf = len(gaps), gaps[len(gaps)-1], gaps[len(gaps)/2]
		}
		return nil
	})
	return f, nil
}

// rolling restarts every node, one after the other.
func (d *drill) rolling(ctx context.Context, f *Figure) error {
	for _, n := range slices.Clone(d.nodes) {
		begun := time.Now()
		if err := n.stop(ctx); err != nil {
			return err
		}
		stopped := time.Now()
		if err := n.start(ctx); err != nil {
			return err
		}
		if err := d.members(ctx, len(d.nodes)); err != nil {
			return err
		}
		d.print("   %s: handed off and ended in %v, back as a member after %v more", n.name, stopped.Sub(begun).Round(time.Millisecond),
			time.Since(stopped).Round(time.Millisecond))
	}
	return d.spread(ctx)
}

// join starts one more node and waits until it has its share.
func (d *drill) join(ctx context.Context, _ *Figure) error {
	n := d.newNode(fmt.Sprintf("n%d", len(d.nodes)+1), -1)
	d.nodes = append(d.nodes, n)
	if err := n.start(ctx); err != nil {
		return err
	}
	if err := d.members(ctx, len(d.nodes)); err != nil {
		return err
	}
	return d.spread(ctx)
}

// leave stops the node that joined.
func (d *drill) leave(ctx context.Context, _ *Figure) error {
	n := d.nodes[len(d.nodes)-1]
	if err := n.stop(ctx); err != nil {
		return err
	}
	d.nodes, d.former = d.nodes[:len(d.nodes)-1], append(d.former, n)
	return d.members(ctx, len(d.nodes))
}

// kill kills a node, and starts it again when its tenants are served elsewhere.
func (d *drill) kill(ctx context.Context, f *Figure) error {
	n := d.nodes[0]
	its, others, err := d.tenantsOf(ctx, n)
	if err != nil {
		return err
	}
	if err := n.kill(); err != nil {
		return err
	}
	killed := time.Now()
	d.crashed(n.name, killed)
	probes := d.load.probe(its)
	d.elsewhere(f, n.name, probes, d.opts.TTL+afterLease)
	d.unhurt(f, killed, time.Now(), others, d.opts.TTL/2)
	if err := n.start(ctx); err != nil {
		return err
	}
	return d.back(ctx)
}

// freeze lets a node stand still.
func (d *drill) freeze(ctx context.Context, f *Figure) error {
	n := d.nodes[1]
	its, others, err := d.tenantsOf(ctx, n)
	if err != nil {
		return err
	}
	if err := n.freeze(); err != nil {
		return err
	}
	frozen := time.Now()
	d.crashed(n.name, frozen)
	thaw := time.NewTimer(d.opts.Frozen)
	defer thaw.Stop()
	probes := d.load.probe(its)
	d.elsewhere(f, n.name, probes, d.opts.Frozen)
	select {
	case <-thaw.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	// A client that has not heard yet that a tenant has moved away from the frozen node asks it in vain for one attempt.
	d.unhurt(f, frozen, time.Now(), others, d.opts.TTL)
	if err := n.resume(); err != nil {
		return err
	}
	resumed := time.Now()
	if err := d.full(ctx, n); err != nil {
		return err
	}
	took := time.Since(resumed)
	f.say("%s was a full member %v after it went on", n.name, took.Round(time.Millisecond))
	limit := fullAgain + d.opts.Slack
	if d.opts.Embedded {
		limit += election
	}
	if took > limit {
		f.break_("%s was a full member only %v after it went on", n.name, took.Round(time.Millisecond))
	}
	return d.back(ctx)
}

// back waits until every node is a member and has its tenants.
func (d *drill) back(ctx context.Context) error {
	if err := d.members(ctx, len(d.nodes)); err != nil {
		return err
	}
	return d.spread(ctx)
}

// engineDown kills NATS, and starts it again after three TTLs.
func (d *drill) engineDown(ctx context.Context, f *Figure) error {
	server := d.servers[d.natsAt]
	if err := server.Kill(); err != nil {
		return err
	}
	down := time.Now()
	select {
	case <-time.After(3 * d.opts.TTL):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := server.Start(ctx); err != nil {
		return err
	}
	up := time.Now()
	every := make([]int, len(d.keys))
	for i := range every {
		every[i] = i
	}
	first := make([]time.Duration, len(every))
	for _, a := range d.load.probe(every) {
		if a.err != nil {
			f.break_("tenant %d is not served after the return: %v", a.tenant, a.err)
		}
		first[a.tenant] = a.done.Sub(up)
	}
	slices.Sort(first)
	f.say("NATS was away for %v; every tenant was acknowledged again within %v of its return (the median within %v; ttl %v)", up.Sub(down).Round(time.Millisecond),
		first[len(first)-1].Round(time.Millisecond), first[len(first)/2].Round(time.Millisecond), d.opts.TTL)
	if longest := first[len(first)-1]; longest > d.opts.TTL+d.opts.Slack {
		f.break_("a tenant was acknowledged again only %v after the return", longest)
	}
	for _, n := range d.nodes {
		if n.gone() {
			f.break_("the process of %s has ended", n.name)
		}
	}
	return d.back(ctx)
}

// elsewhere checks, at the end of the run, when the tenants of a dead node were acknowledged by another: the probes
// were under way all the time.
func (d *drill) elsewhere(f *Figure, name string, probes []asked, most time.Duration) {
	step := f.Name
	for _, a := range probes {
		if a.err == nil && messages.OwnerNode(a.owner) == name {
			f.break_("tenant %d was acknowledged by %s itself", a.tenant, name)
		}
	}
	d.later = append(d.later, func(end *ending) error {
		f := end.figure(Step(step))
		var longest time.Duration
		for _, a := range probes {
			if a.err != nil {
				continue // it is counted as failed
			}
			last := end.trails.lastRenewal(d.keys[a.tenant], a.epoch-1)
			took := a.done.Sub(last)
			longest = max(longest, took)
			if took > most+d.grace() {
				f.break_("tenant %d was acknowledged elsewhere %v after its last renewal", a.tenant, took.Round(time.Millisecond))
			}
		}
		f.say("%d tenants of %s were acknowledged elsewhere at most %v after their last renewal (ttl %v)", len(probes), name,
			longest.Round(time.Millisecond), d.opts.TTL)
		return nil
	})
}

// unhurt checks that the tenants of the other nodes did not notice.
func (d *drill) unhurt(f *Figure, from, to time.Time, others []int, most time.Duration) {
	d.load.settle(to)
	var o Figure
	o.count(d.load.during(from, to, others))
	f.say("%d requests to tenants of the other nodes meanwhile: %d failed, the longest took %v", o.Asked, o.Failed, o.Longest.Round(time.Millisecond))
	if o.Failed > 0 {
		f.break_("%d requests to tenants of other nodes failed", o.Failed)
	}
	if o.Longest > most+d.grace() {
		f.break_("a tenant of another node did not answer for %v", o.Longest.Round(time.Millisecond))
	}
}

// grace is how much longer everything may take: the slack, and when a NATS server dies, or stands still, together with its node the time that the
// servers that are left need: they wait 4 to 9 s before they elect a leader, and clients take some seconds to leave a silent
// server.
func (d *drill) grace() time.Duration {
	if d.opts.Embedded {
		return d.opts.Slack + 15*time.Second
	}
	return d.opts.Slack
}

// tenantsOf asks a node which tenants it serves, and returns the others too.
func (d *drill) tenantsOf(ctx context.Context, n *node) (its, others []int, err error) {
	var list struct {
		Tenants []struct {
			Key   messages.Key `json:"key"`
			State string       `json:"state"`
		} `json:"tenants"`
	}
	if err := n.get(ctx, "/v1/tenants", &list); err != nil {
		return nil, nil, err
	}
	served := make(map[messages.Key]bool)
	for _, t := range list.Tenants {
		served[t.Key] = true
	}
	for i, key := range d.keys {
		if served[key] {
			its = append(its, i)
		} else {
			others = append(others, i)
		}
	}
	return its, others, nil
}

// view is what a node says of the members.
type view struct {
	Members []struct {
		Owner string `json:"owner"`
		Name  string `json:"name"`
		State string `json:"state"`
		Open  int    `json:"open"`
	} `json:"members"`
}

func (d *drill) view(ctx context.Context, n *node) (v view, err error) {
	return v, n.get(ctx, "/v1/members", &v)
}

// until waits for something that no event tells of.
func until(ctx context.Context, what string, ok func() bool) error {
	for !ok() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
	return nil
}

// members waits until every node sees so many serving members.
func (d *drill) members(ctx context.Context, count int) error {
	return until(ctx, fmt.Sprintf("every node sees %d members", count), func() bool {
		for _, n := range d.nodes {
			v, err := d.view(ctx, n)
			if err != nil || len(v.Members) != count {
				return false
			}
		}
		return true
	})
}

// spread waits until the tenants are where they belong: no node has less than half of its share.
func (d *drill) spread(ctx context.Context) error {
	share := len(d.keys) / len(d.nodes) / 2
	return until(ctx, "every node has its share of the tenants", func() bool {
		v, err := d.view(ctx, d.nodes[0])
		if err != nil {
			return false
		}
		open := 0
		for _, m := range v.Members {
			if m.Open < share {
				return false
			}
			open += m.Open
		}
		return open == len(d.keys)
	})
}

// full waits until a node is a full member: every other one sees it, it is ready, and it serves a tenant.
func (d *drill) full(ctx context.Context, n *node) error {
	seen := func() bool {
		for _, other := range d.nodes {
			v, err := d.view(ctx, other)
			if err != nil || len(v.Members) != len(d.nodes) {
				return false
			}
		}
		return true
	}
	if err := until(ctx, n.name+" is seen by all", seen); err != nil {
		return err
	}
	if err := n.await(ctx, "/readyz"); err != nil {
		return err
	}
	return d.serves(ctx, n)
}

// serves appends to a tenant through a node's own API.
func (d *drill) serves(ctx context.Context, n *node) error {
	return until(ctx, n.name+" answers for a tenant", func() bool {
		a := d.load.through(ctx, n.http, n.address, 0)
		return a.err == nil
	})
}
