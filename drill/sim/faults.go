package sim

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/messages"
)

// chaos starts everything that goes wrong, until ctx ends.
func (w *world) chaos(ctx context.Context, running *sync.WaitGroup) {
	p := w.Profile
	every := func(what string, mean time.Duration, do func(*rand.Rand)) {
		if mean <= 0 {
			return
		}
		r := stream(w.Seed, what)
		running.Go(func() {
			for rest(ctx, around(r, mean)) {
				do(r)
			}
		})
	}
	for _, n := range w.nodes {
		every(n.name+" crash", p.Crash, func(r *rand.Rand) { n.crashFor(ctx, between(r, 100*time.Millisecond, 25*time.Second)) })
		every(n.name+" freeze", p.Freeze, func(r *rand.Rand) { n.freeze(ctx, between(r, 3*time.Second, 25*time.Second), false) })
		every(n.name+" suspend", p.Suspend, func(r *rand.Rand) { n.freeze(ctx, between(r, 10*time.Second, 50*time.Second), true) })
		every(n.name+" pause", p.Pause, func(r *rand.Rand) { n.pause(between(r, 8*time.Second, 20*time.Second)) })
		every(n.name+" outage", p.Outage, func(r *rand.Rand) { n.outage(ctx, r.IntN(3), between(r, 2*time.Second, 25*time.Second), false) })
		every(n.name+" gray", p.Gray, func(r *rand.Rand) { n.outage(ctx, r.IntN(3), between(r, 5*time.Second, 30*time.Second), true) })
		every(n.name+" gray leases", p.GrayLeases, func(r *rand.Rand) { n.outage(ctx, onlyLeases, between(r, 10*time.Second, 40*time.Second), true) })
	}
	for _, key := range w.keys {
		c := newClient(w, key, "operator")
		at := func(what string) string { return shortKey(key) + " " + what }
		for name, mean := range map[string]time.Duration{
			history.OrderHandoff: p.Handoff, history.OrderAbandon: p.Abandon, history.OrderSnapshot: p.Snapshot, history.OrderForget: p.Forget,
		} {
			o := newClient(w, key, name)
			every(at(name), mean, func(r *rand.Rand) {
				if name == history.OrderHandoff && r.Float64() < 0.5 {
					o.handOffBehind(ctx)
				} else {
					o.order(ctx, name)
				}
			})
		}
		every(at("compete"), p.Compete, func(r *rand.Rand) { c.compete(ctx, r) })
		every(at("rot"), p.Rot, func(r *rand.Rand) { w.rot(ctx, key, between(r, 5*time.Second, 20*time.Second)) })
	}
	every("engine", p.Engine, func(r *rand.Rand) { w.engineOutage(ctx, r.IntN(3) > 0, between(r, ttl/2, 4*ttl)) })
	if p.Reset {
		running.Go(func() { w.reset(ctx) })
	}
	every("jump", jumpEvery(p.Jump), func(r *rand.Rand) {
		d := between(r, -p.Jump, p.Jump)
		w.logf("the lease store's clock jumps by %v", d)
		w.clock.jump(d)
		rest(ctx, 2*ttl) // one jump per lease is what the margin covers
	})
}

func jumpEvery(jump time.Duration) time.Duration {
	if jump == 0 {
		return 0
	}
	return 30 * time.Second
}

func (n *node) crashFor(ctx context.Context, down time.Duration) {
	n.crash()
	rest(ctx, down)
	if ctx.Err() == nil && n.current() == nil {
		n.mustStart()
	}
}

func (n *node) mustStart() {
	if err := n.start(); err != nil {
		n.w.fail("D13", messages.Key{}, "%v", err)
	}
}

// freeze stops the process. suspended: its clock does not count the time.
func (n *node) freeze(ctx context.Context, d time.Duration, suspended bool) {
	l := n.current()
	if l == nil || l.process.stopped() {
		return
	}
	if suspended {
		l.process.suspend(n.w, l.owner, d)
		return
	}
	n.w.logf("%s is stopped for %v", l.owner, d)
	n.w.count(func(s *Stats) { s.Freezes++ })
	l.process.stop()
	if n.w.Profile.ThawOnList {
		d = 3 * ttl
	}
	l.process.stopFor(ctx, d)
	l.process.resume(false)
	n.w.logf("%s goes on", l.owner)
}

// suspend stops the process for a time that its clock will not have counted.
func (p *process) suspend(w *world, owner string, d time.Duration) {
	if p.stopped() {
		return
	}
	w.logf("%s is suspended for %v", owner, d)
	w.count(func(s *Stats) { s.Freezes++ })
	p.stop()
	p.stopFor(context.Background(), d)
	w.mu.Lock()
	if _, ok := w.history.Clockless[owner]; !ok {
		w.history.Clockless[owner] = time.Now()
	}
	w.mu.Unlock()
	p.resume(true)
	w.logf("%s goes on, and its clock has lost the time", owner)
}

// listed lets stopped processes go on in the middle of a successor's open: they hurry, and it does not.
func (w *world) listed(prefix string, by durable) {
	if !w.Profile.ThawOnList {
		return
	}
	for _, n := range w.nodes {
		l := n.current()
		if l == nil || l.owner == by.owner || !l.process.stopped() {
			continue
		}
		w.mu.Lock()
		held := false
		for _, e := range w.history.Trails[keyOf(prefix)] {
			held = held || (e.Op == messages.OpAcquire && e.Owner == l.owner)
		}
		w.mu.Unlock()
		if held {
			w.logf("%s is woken by the open of %s", l.owner, by.owner)
			now := time.Now()
			by.set(func() { by.slow = now.Add(durableTimeout) })
			for _, k := range []*link{l.leases, l.durable} {
				k.set(func() { k.quick = now.Add(durableTimeout) })
			}
			l.process.resume(false)
		}
	}
}

// keyOf returns the tenant whose prefix is listed.
func keyOf(prefix string) messages.Key {
	key, err := messages.ParseKey(strings.TrimSuffix(prefix, "/"))
	if err != nil {
		return messages.Key{}
	}
	return key
}

// pause makes the next commit of the process take so long.
func (n *node) pause(d time.Duration) {
	if l := n.current(); l != nil {
		n.w.logf("%s: the next commit takes %v", l.owner, d)
		l.process.mu.Lock()
		l.process.pauses = d
		l.process.mu.Unlock()
	}
}

// What an outage concerns; any other number: both stores.
const (
	onlyLeases  = 0
	onlyDurable = 1
)

// outage takes one store, or both, away from the node.
func (n *node) outage(ctx context.Context, which int, d time.Duration, gray bool) {
	l := n.current()
	if l == nil {
		return
	}
	var links []*link
	if which != onlyDurable {
		links = append(links, l.leases)
	}
	if which != onlyLeases {
		links = append(links, l.durable)
	}
	for _, k := range links {
		n.w.logf("%s: outage for %v (gray: %v)", k.name, d, gray)
		k.set(func() {
			if gray {
				k.gray = true
			} else {
				k.down = true
			}
		})
	}
	rest(ctx, d)
	for _, k := range links {
		k.set(func() { k.gray, k.down = false, false })
	}
}

// compete asks every node to open the tenant.
func (c *client) compete(ctx context.Context, r *rand.Rand) {
	for _, i := range r.Perm(len(c.w.nodes)) {
		l := c.w.nodes[i].current()
		if l == nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, 8*time.Second)
		tenant, err := l.node.Tenant(limited, c.key.Org, c.key.Tenant)
		if err == nil {
			err = tenant.Open(limited)
		}
		cancel()
		c.w.judge(c.key, "open", l, err)
	}
}

// rot damages the newest image of a tenant while it is needed, and later an operator removes the
// snapshot, as the failing opens ask for.
func (w *world) rot(ctx context.Context, key messages.Key, repair time.Duration) {
	n := w.holder(key)
	if n == nil {
		return // somebody may be restoring it just now
	}
	n.crash()
	defer n.mustStart()
	at, ok := w.newest(key)
	if !ok {
		return
	}
	name := key.ImageName(at.Epoch, at.Snapshot)
	path := filepath.Join(w.root, "durable", filepath.FromSlash(name))
	image, err := os.ReadFile(path)
	// The damage is one letter of one row: SQLite's own checks cannot see it.
	i := bytes.LastIndex(image, []byte(shortKey(key)+"-"))
	if err != nil || i < 0 {
		return
	}
	image[i+3] ^= 1
	if os.WriteFile(path, image, 0o600) != nil {
		return
	}
	w.mu.Lock()
	w.rotten[name] = true
	w.logLocked("%s rots", short(name))
	w.mu.Unlock()
	rest(ctx, repair)
	w.mu.Lock()
	w.history.Excused[key][at] = true
	w.logLocked("the operator removes %s", short(name))
	w.mu.Unlock()
	for _, object := range []string{key.ManifestName(at.Epoch, at.Snapshot), name} {
		if _, err := w.durable.Delete(context.Background(), object); err != nil {
			w.logf("the operator cannot remove %s: %v", short(object), err)
		}
	}
	w.mu.Lock()
	delete(w.rotten, name)
	w.mu.Unlock()
}

// newest returns the newest snapshot of a tenant's newest epoch, if that epoch is pinned and has one:
// only then it can be taken out of the lineage again.
func (w *world) newest(key messages.Key) (messages.Position, bool) {
	names, err := w.durable.List(context.Background(), key.Prefix())
	lease, known, leaseErr := w.leases.Read(context.Background(), key)
	if err != nil || leaseErr != nil || !known {
		return messages.Position{}, false
	}
	objects := map[string]history.Object{}
	for _, name := range names {
		if data, ok, err := w.durable.Get(context.Background(), name, math.MaxInt64); err == nil && ok {
			objects[name] = history.Object{Data: data}
		}
	}
	at, m, err := history.Restore(key, objects, lease.Epoch+1, lease.Floor)
	return at, err == nil && m != nil && at.Epoch == lease.Epoch
}

// holder returns the node whose process holds the lease; nil if there is none.
func (w *world) holder(key messages.Key) *node {
	lease, ok, err := w.leases.Read(context.Background(), key)
	if err != nil || !ok || !w.clock.Now().Before(lease.End) {
		return nil
	}
	for _, n := range w.nodes {
		if l := n.current(); l != nil && l.owner == lease.Owner {
			return n
		}
	}
	return nil
}
