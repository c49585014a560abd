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
	order  *order
	reply  chan error
	begun  time.Time
	over   chan struct{} // closed when the drain has ended: the tenant serves again, or is closing
	stop   func()        // the caller's deadline means nothing any more
	final  bool          // a final snapshot was asked for
	waits  bool          // for a fence that has closed by itself: for a renewal, or for the last snapshot
	tries  int           // final snapshots of a shutdown that failed
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
	nothingLost bool // nothing was served, or everything is saved
}

func (l *leaving) answer(err error) {
	if l.nothingLost {
		err = nil
	}
	offer(l.reply, err)
}

func (t *tenant) handOff(m handoff) {
	switch {
	case t.state != StateServing && m.reason == reasonShutdown:
		// Answered only when the lease was handed back: what is stopped before that lets it run out.
		l := &leaving{handoff: m, nothingLost: t.state == StateOpening}
		if l.nothingLost {
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
	t.startDrain(m.ctx, m.reason, m.order, m.reply)
}

func (t *tenant) startDrain(ctx context.Context, reason string, o *order, reply chan error) {
	// It stays as it is when the tenant serves again: a caller may have been turned away just before.
	t.act.passing.Store(reason == reasonIdle || reason == reasonEvicted || reason == reasonLostFiles)
	t.setState(StateDraining)
	t.emit(messages.Lifecycle{Kind: messages.LifecycleDraining})
	d := &drain{reason: reason, order: o, reply: reply, begun: t.node.cfg.Now(), over: make(chan struct{})}
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
	default:
		t.flush()
	}
}

// flush goes on if a snapshot that counts holds everything, else it asks for one.
func (t *tenant) flush() {
	d := t.drain
	fenced := t.fence.Check()
	waits := d.reason == reasonShutdown && errors.Is(fenced, expiredLocally)
	switch {
	case waits && t.unsaved():
		d.waits = true
		t.saveLast()
	case waits:
		// The last snapshot has landed. It proves nothing, and nothing is concluded from it but that the node may stop:
		// if the lease lives on all the same, everybody who is granted it later lists after that.
		t.handBack()
	case t.handle.Version() != t.saved:
		d.final, d.taking = true, len(t.takes)
		t.take("final")
	case fenced != nil:
		t.undrain(fenced)
	case t.forgetOp != nil:
		t.forgetDrained()
	default:
		t.handBack()
	}
}

// handBack releases the lease of a tenant that is drained and saved.
func (t *tenant) handBack() {
	d := t.drain
	if !d.order.begin() {
		t.undrain(errRevoked(t.key))
		return
	}
	flushed := true
	t.drain = nil
	d.stop()
	t.setState(StateClosing)
	close(d.over)
	t.release(&release{reply: d.reply, flushed: &flushed, then: func() {
		t.node.metrics.handoff.Observe(t.node.cfg.Now().Sub(d.begun).Seconds())
		t.end(nil)
	}})
}

// errRevoked is what nobody is told any more: the caller has gone.
func errRevoked(key messages.Key) error {
	return &messages.Error{Code: messages.CodeCanceled, Key: key.String(), Message: "the caller gave up"}
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
	switch {
	case err == nil:
		t.flush()
	case t.forgetOp != nil && hopeless(err) && t.fence.Check() == nil:
		// There will never be a copy of this ledger, and it must be possible to forget it all the same.
		t.forgetDrained()
	case d.reason == reasonShutdown && (errors.Is(err, expiredLocally) || !hopeless(err)):
		// What is in the way may pass, and there is time.
		d.tries++
		t.self.After(t.pause(d.tries), flushAgain{d})
	default:
		t.undrain(err)
	}
}

// waitsForTheFence reports whether a shutdown's handoff has met a fence that has closed by itself.
func (t *tenant) waitsForTheFence() bool {
	d := t.drain
	return t.draining(d) && d.waits && d.failed == nil
}

// goOnDraining goes on with that handoff: a renewal has opened the fence, or the last snapshot was answered.
func (t *tenant) goOnDraining() {
	if t.waitsForTheFence() {
		t.drain.waits = false
		t.flush()
	}
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
	t.leave(reasonIdle)
}

// leave begins a handoff that nobody asked for.
func (t *tenant) leave(reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), t.node.cfg.RequestTimeout)
	t.startDrain(ctx, reason, nil, nil)
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
	if !m.order.begin() {
		return // its caller was told that nothing was done
	}
	t.setState(StateClosing)
	t.abandoned = true
	t.fence.Close(messages.ReasonReleased)
	// Only now: a write that was acknowledged was committed before the fence closed.
	flushed := t.handle.Version() == t.saved
	t.release(&release{reply: m.reply, flushed: &flushed, then: func() { t.end(t.act.closed()) }})
}

// release hands the lease back; the holder has stopped, or stops with it.
func (t *tenant) release(r *release) {
	t.releasing = r
	if t.drain != nil && t.forgetOp == nil {
		t.drain.order.begin() // in the middle of a handoff, whatever the reason: nobody may be told that nothing was done
	}
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
