package actors

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
)

// drain is a handoff under way: new work is refused, work in flight finishes, a final snapshot is
// published. Until the release is sent there is a way back.
type drain struct {
	reason string
	reply  chan error
	begun  time.Time
	over   chan struct{} // closed when the drain has ended: the tenant serves again, or is closing
	stop   func()        // the caller's deadline means nothing any more
	final  bool          // a final snapshot was asked for
	taking int           // how many snapshots are ahead of the answer that is waited for
	failed error         // set once it has failed and the ledger is being told
}

// release is a lease being handed back. Nothing is served any more.
type release struct {
	reply   chan error
	err     error // for reply
	flushed *bool
	then    func()
}

// leaving is a handoff of a shutdown that met a tenant which did not serve: it is answered when the
// actor ends, and begins if the tenant serves again before that.
type leaving struct {
	handoff
	unserved bool // nothing was served, so nothing can be lost
}

func (l *leaving) answer(err error) {
	if l.unserved {
		err = nil
	}
	offer(l.reply, err)
}

func (t *tenant) handOff(m handoff) {
	switch {
	case t.state != StateServing && m.reason == reasonShutdown:
		// Answered only when the lease was handed back: what is stopped before that lets it run out.
		l := &leaving{handoff: m, unserved: t.state == StateOpening}
		if l.unserved {
			t.giveUp(errNodeDown())
		}
		t.leaving = l
		return
	case t.state == StateOpening || t.state == StateDraining:
		m.reply <- t.drainingError()
		return
	case t.state == StateClosing:
		m.reply <- t.act.closed()
		return
	}
	t.act.next.Store(&m.next)
	t.startDrain(m.ctx, m.reason, m.reply)
}

func (t *tenant) startDrain(ctx context.Context, reason string, reply chan error) {
	// It stays as it is when the tenant serves again: a caller may have been turned away just before.
	t.act.passing.Store(reason == reasonIdle || reason == reasonEvicted)
	t.setState(StateDraining)
	t.emit(messages.Lifecycle{Kind: messages.LifecycleDraining})
	d := &drain{reason: reason, reply: reply, begun: t.node.cfg.Now(), over: make(chan struct{})}
	ref, handle := t.self.Ref(), t.handle
	unwatch := context.AfterFunc(ctx, func() { ref.Send(drainTimeout{d, ctx.Err()}) })
	inner, cancel := context.WithCancel(ctx)
	d.stop = func() { unwatch(); cancel() }
	t.drain = d
	t.self.Go(func(own context.Context) any {
		defer context.AfterFunc(own, cancel)()
		return drained{d, insist(inner, handle.Drain)}
	})
}

// insist repeats a call that the ledger bounds by its own timeout: a transaction that it has begun may
// take longer, as long as its caller allows.
func insist(ctx context.Context, call func(context.Context) error) error {
	for {
		if err := call(ctx); ctx.Err() != nil || !errors.Is(err, messages.ErrDeadlineExceeded) {
			return err
		}
	}
}

// draining reports whether d is the drain under way. A tenant that gave up meanwhile is on its way out,
// and its drain means nothing any more.
func (t *tenant) draining(d *drain) bool {
	return d != nil && t.drain == d && t.state == StateDraining
}

// drained goes on once everything in flight is answered.
func (t *tenant) drained(err error) {
	switch {
	case t.drain.failed != nil:
		return
	case err != nil:
		t.undrain(err)
	case t.forgetOp != nil:
		t.forgetDrained()
	default:
		t.flush()
	}
}

// flush releases if a snapshot that counts holds everything, else asks for one.
func (t *tenant) flush() {
	d := t.drain
	if t.handle.Version() == t.saved {
		if err := t.fence.Check(); err != nil {
			t.undrain(err)
			return
		}
		flushed := true
		t.drain = nil
		d.stop()
		t.setState(StateClosing)
		close(d.over)
		t.dropFiles = true
		begun := d.begun
		t.release(&release{reply: d.reply, flushed: &flushed, then: func() {
			t.node.metrics.handoff.Observe(t.node.cfg.Now().Sub(begun).Seconds())
			t.end(nil)
		}})
		return
	}
	d.final, d.taking = true, len(t.takes)
	t.take("final", nil)
}

// flushed is told of every snapshot that was answered.
func (t *tenant) flushed(err error) {
	d := t.drain
	if !t.draining(d) || d.failed != nil || !d.final {
		return
	}
	if d.taking > 0 {
		d.taking--
		return
	}
	d.final = false
	if err != nil {
		t.undrain(err)
		return
	}
	t.flush()
}

// undrain goes back to serving after a handoff that failed ([H3]). The ledger takes work again before
// anybody is told.
func (t *tenant) undrain(err error) {
	d := t.drain
	if d.failed != nil {
		return
	}
	d.failed = err
	d.stop()
	handle := t.handle
	t.self.Go(func(ctx context.Context) any { return undrained{d, insist(ctx, handle.Undrain)} })
}

// undrained goes on serving.
func (t *tenant) undrained(err error) {
	d := t.drain
	if d.failed == nil {
		return
	}
	if err != nil { // the ledger itself is on its way out, and says so
		t.giveUp(err)
		return
	}
	t.drain, t.forgetOp = nil, nil
	t.act.next.Store(nil)
	t.setState(StateServing)
	t.saveLast()
	t.act.used.Store(t.node.sinceStart())
	t.emit(failure(messages.LifecycleUndrained, d.failed))
	if d.reply != nil {
		d.reply <- d.failed
	}
	close(d.over)
	if l := t.leaving; l != nil {
		t.leaving = nil
		t.handOff(l.handoff)
	}
}

func (t *tenant) closeIfIdle() {
	idle := t.node.cfg.IdleAfter
	if idle < 0 || t.state != StateServing || t.act.inFlight.Load() > 0 || time.Duration(t.node.sinceStart()-t.act.used.Load()) < idle {
		return
	}
	t.node.metrics.evictions.Inc()
	ctx, cancel := context.WithTimeout(context.Background(), t.node.cfg.RequestTimeout)
	t.startDrain(ctx, reasonIdle, nil)
	stop := t.drain.stop
	t.drain.stop = func() { stop(); cancel() }
}

// abandon releases at once, without a flush.
func (t *tenant) abandon(m abandon) {
	switch t.state {
	case StateServing:
	case StateDraining:
		m.reply <- t.drainingError()
		return
	default:
		m.reply <- t.act.closed()
		return
	}
	t.setState(StateClosing)
	t.fence.Close(messages.ReasonReleased)
	// Only now: a write that was acknowledged was committed before the fence closed.
	flushed := t.handle.Version() == t.saved
	t.release(&release{reply: m.reply, flushed: &flushed, then: func() { t.end(t.act.closed()) }})
}

// release hands the lease back; the holder has stopped, or stops with it.
func (t *tenant) release(r *release) {
	t.releasing = r
	t.fence.Close(messages.ReasonReleased)
	t.stopLast()
	t.lease.Send(leaseactor.Release{})
}

// released goes on when the store has answered. If it did not, the next owner waits out the lease
// ([D8]); this node serves no more in either case.
func (t *tenant) released(err error) {
	r := t.releasing
	if r == nil {
		return
	}
	t.releasing = nil
	if t.servesAfterLostRelease(r, err) {
		return
	}
	if t.granted.Epoch > 0 {
		t.emit(messages.Lifecycle{Kind: messages.LifecycleReleased, Flushed: r.flushed, Code: messages.CodeOf(err)})
	}
	if r.reply != nil {
		r.reply <- r.err
	}
	r.then()
}
