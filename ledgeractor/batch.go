package ledgeractor

import (
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// batch is a group commit: the writes that share one transaction. Its members are answered together,
// once the batch is decided; also those that failed, since what they saw of their neighbours may
// still be rolled back.
type batch struct {
	id       uint64
	members  []*request
	appended int64 // rows that were stored
	last     int64 // the last one's seq
	deciding bool  // the commit was begun: from here on a failure of ours is an unknown outcome
}

// write executes one request in the current batch, or begins one.
func (a *Actor) write(r *request) {
	if !r.begin() {
		return // its caller gave up, and was told that nothing is done
	}
	if err := a.refusal(true); err != nil {
		r.answer(err)
		return
	}
	if err := r.ctx.Err(); err != nil {
		r.answer(messages.AsError(err))
		return
	}
	first := a.batch == nil
	if first {
		if err := a.guard.beginBatch(); err != nil {
			r.answer(err)
			return
		}
		a.batches++
		a.batch = &batch{id: a.batches}
	}
	b := a.batch
	b.members = append(b.members, r) // before it runs: if our own code panics, it is answered with the others
	r.err = a.execute(b, r)
	switch {
	case a.guard.lost != nil:
		a.dissolve(r)
	case first && r.err != nil:
		a.abort(r.err) // nobody else is in it
	case len(b.members) >= a.cfg.Limits.MaxBatch:
		a.flush()
	case first:
		// What is queued by now joins. If the mailbox is closed, Stopping flushes.
		a.self.Ref().Send(flush{b.id})
	}
	if a.cfg.Planted.Has(planted.AckBeforeCommit) {
		r.answer(r.err)
	}
}

// refusal returns why no work can be done now.
func (a *Actor) refusal(write bool) error {
	switch broken := a.shared.broken.Load(); {
	case broken != nil:
		return *broken
	case a.guard == nil:
		return closedError(a.cfg.Key)
	case write && a.shared.draining.Load():
		return drainingError(a.cfg.Key)
	case write && a.lost != nil:
		return a.lost
	}
	if err := a.guard.checkFence(); err != nil || !write {
		return err
	}
	written := int64(0)
	if a.batch != nil {
		written = a.guard.bytes
	}
	return a.shared.tail.limit(a.cfg, written)
}

// execute does the work of one member. What fails is undone, and fails alone.
func (a *Actor) execute(b *batch, r *request) error {
	g := a.guard
	fits := false // whatever it does, the ledger can still be copied
	if r.code == nil {
		var err error
		if fits, err = g.fits(r.rows); err != nil {
			return err
		}
	}
	if len(r.rows) == 1 && fits {
		// A single statement is undone by SQLite itself.
		out, err := g.appendRow(nil, r.rows[0])
		if err == nil {
			r.appended = []messages.Appended{out}
			b.count(out)
		}
		return err
	}
	if err := g.step(g.save); err != nil {
		return err
	}
	bytes := g.bytes
	var appended []messages.Appended
	stored, last, err := int64(0), int64(0), error(nil)
	if r.code != nil {
		stored, last, err = g.runMember(r, len(b.members) > 1)
	} else {
		for _, row := range r.rows {
			var out messages.Appended
			if out, err = g.appendRow(nil, row); err != nil {
				break
			}
			appended = append(appended, out)
			if !out.Duplicate {
				stored, last = stored+1, out.Seq
			}
		}
	}
	if g.lost != nil {
		if err == nil { // application code swallowed the error
			err = g.rolledBack()
		}
		return err
	}
	if err == nil && !fits && g.wrote {
		err = g.checkImage()
	}
	if err == nil {
		err = g.step(g.release)
	}
	if err != nil {
		g.bytes = bytes
		if undo := g.undoMember(); undo != nil {
			g.lost = undo // half of a member must not be committed with the others
		}
		return err
	}
	r.appended = appended
	b.appended += stored
	b.last = max(b.last, last)
	return nil
}

func (b *batch) count(out messages.Appended) {
	if !out.Duplicate {
		b.appended++
		b.last = out.Seq
	}
}

// dissolve ends a batch whose transaction is gone because of its last member: a full disk, or a
// write that had to be interrupted. The others were not done either; they can be tried again.
func (a *Actor) dissolve(culprit *request) {
	b := a.batch
	a.batch = nil
	rollback := a.guard.rollbackBatch()
	for _, m := range b.members {
		switch {
		case m == culprit:
			m.answer(m.err)
		case messages.CodeOf(culprit.err) == messages.CodeStorage:
			m.answer(culprit.err)
		default:
			m.answer(&messages.Error{Code: messages.CodeOverloaded, Key: a.cfg.Key.String(), RetryAfter: overloadedRetry,
				Message: "rolled back together with another request; nothing was done"})
		}
	}
	if rollback != nil {
		panic(rollback) // the connection is in no state that we know: it is opened anew
	}
}

// abort rolls the batch back and answers every member with err: a true refusal.
func (a *Actor) abort(err error) {
	b := a.batch
	if b == nil {
		return
	}
	a.batch = nil
	rollback := a.guard.rollbackBatch()
	for _, m := range b.members {
		m.answer(err)
	}
	if rollback != nil && messages.CodeOf(rollback) != messages.CodeCorrupt {
		panic(rollback)
	}
}

// flush decides the batch: fence, commit, fence, and only then the acknowledgements.
func (a *Actor) flush() {
	b := a.batch
	if b == nil {
		return
	}
	if !a.cfg.Planted.Has(planted.NoFenceBeforeCommit) {
		if err := a.guard.checkFence(); err != nil {
			a.abort(err)
			return
		}
	}
	if a.filesLost() != nil {
		return // nothing of the batch stands
	}
	b.deciding = true
	if err := a.guard.commitBatch(); err != nil {
		b.deciding = false
		a.abort(err)
		return
	}
	if a.guard.wrote {
		a.shared.events.Add(b.appended)
		a.shared.committed(b.last)
		a.shared.tail.add(a.shared.version.Add(1), a.cfg.Now(), a.guard.bytes)
		defer a.boundWAL() // after the answers
	}
	var fenced error
	if !a.cfg.Planted.Has(planted.NoFenceAfterCommit) {
		fenced = a.guard.checkFence()
	}
	a.batch = nil
	for _, m := range b.members {
		switch {
		case fenced == nil:
			m.answer(m.err)
		case m.err != nil || a.cfg.Planted.Has(planted.RefuseAfterCommit):
			m.answer(fenced) // a member that failed was undone: that is certain
		default:
			m.answer(messages.Unknown(a.cfg.Key, a.cfg.Epoch, fenced))
		}
	}
}
