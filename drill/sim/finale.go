package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/messages"
)

// patience is how long a healthy fleet may take until a tenant is served where it is asked for: a
// lease and a half to wait out, and an open.
const patience = 90 * time.Second

// finale ends every fault and then asks what must be possible again: each tenant at each node, with
// handoffs that lose nothing, and at last at a node that was never there before. What was forgotten
// is swept.
func (w *world) finale() {
	w.logf("every fault ends")
	for _, n := range w.nodes {
		n.heal()
		if n.current() == nil {
			n.mustStart()
		}
	}
	time.Sleep(maxLanding + durableTimeout) // whatever is under way arrives
	for _, key := range w.keys {
		c := newClient(w, key, "finale")
		for i := range w.nodes {
			c.mustServe(i)
		}
	}
	for _, n := range w.nodes {
		if l := n.current(); l != nil {
			w.mustShutDown(l)
		}
	}
	w.requests.Wait()
	fresh := newNode(w, "fresh")
	fresh.healing = true
	if err := fresh.start(); err != nil {
		w.fail("D13", messages.Key{}, "%v", err)
		return
	}
	w.nodes = append(w.nodes, fresh)
	for _, key := range w.keys {
		w.readFinal(newClient(w, key, "verifier"), len(w.nodes)-1)
	}
	time.Sleep(2 * sweepEvery)
	w.mustShutDown(fresh.life)
	w.requests.Wait()
	left, err := w.durable.List(context.Background(), "")
	if err != nil {
		w.fail("D13", messages.Key{}, "list what is left: %v", err)
	}
	w.history.Left = append([]string{}, left...)
}

func (w *world) mustShutDown(l *life) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.logf("%s is shut down", l.owner)
	if err := l.node.Shutdown(ctx); err != nil && !w.overtaken(err) {
		w.fail("H7", messages.Key{}, "%s could not hand everything off, without any fault: %v", l.owner, err)
	}
}

// mustServe makes a node serve the tenant: it hands it off wherever it is, and opens it there.
func (c *client) mustServe(at int) {
	var err error
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(500 * time.Millisecond) {
		c.home = at
		if err = c.appendAt(at); err == nil {
			return
		}
		var e *messages.Error
		if errors.As(err, &e) && e.Code == messages.CodeHeld && messages.OwnerNode(e.Owner) != c.w.nodes[at].name && c.goTo(e.Owner) {
			c.order(context.Background(), history.OrderHandoff)
		}
	}
	c.w.fail("liveness", c.key, "without any fault, %s does not serve within %v: %v", c.w.nodes[at].name, patience, err)
}

func (c *client) appendAt(at int) error {
	l := c.w.nodes[at].current()
	if l == nil {
		return noAnswer("the node is down")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	events := []messages.Event{event(c.id(), "")}
	writes := c.intendAppend(l, events, 0)
	reply := c.send(ctx, l, messages.Request{Action: messages.ActionAppend, Events: events})
	c.answerAppend(writes, l, reply)
	return errorOf(reply)
}

// readFinal lets the fresh node take the tenant over, and reads everything.
func (w *world) readFinal(c *client, at int) {
	l := w.nodes[at].current()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var tenant *actors.Tenant
	err := noAnswer("")
	for ctx.Err() == nil && err != nil {
		if tenant, err = l.node.Tenant(ctx, c.key.Org, c.key.Tenant); err == nil {
			err = tenant.Open(ctx) // also one that was forgotten
		}
		if err != nil {
			rest(ctx, time.Second)
		}
	}
	if err != nil {
		w.fail("liveness", c.key, "a fresh node cannot open the tenant: %v", err)
		return
	}
	var events []messages.StoredEvent
	for more := true; more; {
		after := int64(0)
		if len(events) > 0 {
			after = events[len(events)-1].Seq
		}
		var page []messages.StoredEvent
		if page, more, err = tenant.Events(ctx, after, 1000); err != nil {
			w.fail("liveness", c.key, "a fresh node cannot read the tenant: %v", err)
			return
		}
		events = append(events, page...)
	}
	if reply := c.send(ctx, l, c.auditRequest()); reply.Error == nil {
		c.checkAudit(l, reply)
	} else {
		w.fail("liveness", c.key, "a fresh node cannot query the tenant: %v", reply.Error)
	}
	status, err := tenant.Status(ctx)
	if err != nil {
		w.fail("liveness", c.key, "a fresh node has no status: %v", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Final[c.key] = history.State{Epoch: status.Epoch, Rows: history.Rows(c.key.Tenant, events)}
}

// age gives each tenant an epoch whose snapshot numbers are about to pass six digits, as they are
// after 33 hours at one per 120 ms: two real snapshots are renumbered.
func (w *world) age(t *testing.T) {
	n := newNode(w, "old")
	n.healing = true
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	w.nodes = append(w.nodes, n)
	for _, key := range w.keys {
		c := newClient(w, key, "age")
		c.home = len(w.nodes) - 1
		for range 2 {
			if err := c.appendAt(c.home); err != nil {
				t.Fatalf("age a tenant: %v", err)
			}
			c.order(context.Background(), history.OrderSnapshot)
		}
	}
	n.crash()
	w.nodes = w.nodes[:len(w.nodes)-1]
	w.requests.Wait()
	const shift = 999_998
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.history.Lifecycle {
		if p := &w.history.Lifecycle[i].Position; p.Snapshot > 0 {
			p.Snapshot += shift
		}
	}
	for _, key := range w.keys {
		w.history.Excused[key][messages.Position{Epoch: 1}] = true // the numbers before were deleted long ago
		for number := uint64(1); number <= 2; number++ {
			if err := w.renumber(key, number, number+shift); err != nil {
				t.Fatalf("age a tenant: %v", err)
			}
		}
	}
}

// renumber moves a snapshot of epoch 1 to another number.
func (w *world) renumber(key messages.Key, from, to uint64) error {
	ctx := context.Background()
	for _, name := range [][2]string{
		{key.ImageName(1, from), key.ImageName(1, to)}, {key.ManifestName(1, from), key.ManifestName(1, to)},
	} {
		object, ok := w.history.Objects[name[0]]
		if !ok {
			return fmt.Errorf("%s was not published", name[0])
		}
		var err error
		if name[1] == key.ManifestName(1, to) {
			if object.Data, err = renumbered(object.Data, to); err != nil {
				return err
			}
		}
		if _, err := w.durable.PutIfAbsent(ctx, name[1], object.Data); err != nil {
			return err
		}
		if _, err := w.durable.Delete(ctx, name[0]); err != nil {
			return err
		}
		delete(w.history.Objects, name[0])
		w.history.Objects[name[1]] = object
	}
	return nil
}

// overtaken reports whether all that keeps a node from handing its tenants off is that they are somebody else's by now. A suspended
// clock does not show that (D6): the store tells it, and what was acknowledged meanwhile stays with that node.
func (w *world) overtaken(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !w.overtaken(e) })
	}
	e := messages.AsError(err)
	i := slices.IndexFunc(w.keys, func(key messages.Key) bool { return key.String() == e.Key })
	if i < 0 || !errors.Is(e, messages.ErrFenced) && !errors.Is(e, messages.ErrLost) {
		return false
	}
	record, _, err := w.leases.Read(context.Background(), w.keys[i])
	return err == nil && record.Epoch > e.Epoch
}
