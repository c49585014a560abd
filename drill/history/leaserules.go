package history

import (
	"time"

	"github.com/leasehold/leasehold/messages"
)

// checkEpochs: the epochs are 1, 2, 3, … (I1).
func (v *view) checkEpochs() {
	for i, g := range v.grants {
		if g.Epoch != uint64(i)+1 {
			v.fail("I1", g.Epoch, "grant %d of the lease is of epoch %d, to %s", i+1, g.Epoch, g.Owner)
			return
		}
	}
}

// checkWriters: each epoch has one writer, the owner that it was granted to, and is opened once (I2).
func (v *view) checkWriters() {
	if len(v.grants) == 0 {
		return
	}
	serving := map[uint64]string{}
	for _, l := range v.lifecycle {
		if l.Kind != messages.LifecycleServing {
			continue
		}
		if g, ok := v.grant(l.Epoch); !ok || g.Owner != l.Owner {
			v.fail("I2", l.Epoch, "%s serves an epoch that was granted to %q", l.Owner, g.Owner)
		}
		if before, ok := serving[l.Epoch]; ok {
			v.fail("I2", l.Epoch, "began to serve twice, at %s and at %s", before, l.Owner)
		}
		serving[l.Epoch] = l.Owner
	}
	for n, e := range v.lineage.epochs {
		g, ok := v.grant(n)
		if e.base != nil && (!ok || e.base.Owner != g.Owner) {
			v.fail("I2", n, "the base was pinned by %s, the epoch was granted to %q", e.base.Owner, g.Owner)
		}
		for number, m := range e.manifests {
			if !ok || m.Owner != g.Owner {
				v.fail("I2", n, "snapshot %d was published by %s, the epoch was granted to %q", number, m.Owner, g.Owner)
			}
		}
	}
}

// mayAck reports whether an owner held the lease at an instant; later is the grant that says no. A
// grant at that very instant may have come before or after it.
func (v *view) mayAck(owner string, epoch uint64, at time.Time) (later messages.LeaseEntry, ok bool) {
	slack := v.h.Slack
	for _, g := range v.grants {
		mine := g.Owner == owner && (epoch == 0 || epoch >= g.Epoch)
		switch {
		case g.At.Add(slack).Before(at):
			later, ok = g, mine
		case !g.At.After(at.Add(slack)):
			ok = ok || mine
		}
	}
	return later, ok
}

// checkAcks: nothing is acknowledged after the next owner's grant, neither a write nor a snapshot
// (I3), nor before the base of its epoch is pinned (D14).
func (v *view) checkAcks() {
	for _, w := range v.writes {
		if w.Outcome == Acked {
			v.checkAck("the write "+w.ID, w.Owner, w.Epoch, w.Answered)
		}
		committed := w.Outcome == Acked || w.Outcome == Unknown && w.Cause == messages.CodeFenced
		if !w.SawFence.IsZero() && committed && !v.renewed(w.Owner, w.SawFence, w.Answered) {
			v.fail("G2", w.Epoch, "the fence was closed before the end of the transaction of %s, which was answered %s %s", w.ID, w.Outcome, w.Code)
		}
	}
	for _, l := range v.lifecycle {
		if l.Kind == messages.LifecycleSnapshot {
			v.checkAck("the snapshot "+l.Position.String(), l.Owner, l.Epoch, l.At)
		}
	}
}

// renewed reports whether a renewal was answered within a time, so that the fence may have opened.
func (v *view) renewed(owner string, from, to time.Time) bool {
	for _, l := range v.lifecycle {
		if l.Kind == messages.LifecycleRenewed && l.Owner == owner && !l.At.Before(from) && !l.At.After(to) {
			return true
		}
	}
	return false
}

func (v *view) checkAck(what, owner string, epoch uint64, at time.Time) {
	if at.IsZero() {
		return
	}
	if v.clocked(owner, at) {
		if g, ok := v.mayAck(owner, epoch, at); !ok && g.Epoch > 0 {
			v.fail("I3", epoch, "%s was acknowledged by %s %v after epoch %d was granted to %s", what, owner, at.Sub(g.At), g.Epoch, g.Owner)
		}
	}
	if epoch == 0 || !v.h.Archive {
		return
	}
	e := v.lineage.epochs[epoch]
	if e == nil || e.base == nil {
		v.fail("D14", epoch, "%s was acknowledged at an epoch that was never pinned", what)
		return
	}
	if landed := v.h.Objects[e.baseName].At; landed.After(at) {
		v.fail("D14", epoch, "%s was acknowledged %v before the base of its epoch was pinned", what, landed.Sub(at))
	}
}
