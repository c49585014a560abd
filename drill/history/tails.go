package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Tail is what an epoch acknowledged and the next pinned epoch did not begin with: the declared loss of
// an owner that crashed, abandoned, or was away from the stores.
type Tail struct {
	Key   messages.Key
	Epoch uint64
	Owner string
	// Granted is when the epoch was granted, Next when the epoch was that did not begin with these writes.
	Granted, Next time.Time
	// Fenced is when the owner's fence closed by itself, and was not opened again; zero: that is not known.
	Fenced time.Time
	// Closed is when the owner's actor ended; zero: that is not known.
	Closed time.Time
	// Released says that the lease store has taken the lease back from its owner.
	Released bool
	// Writes are the acknowledged writes, in the order of their seq.
	Writes []Write
}

// Tails returns every tail, in the order of keys and epochs. What was forgotten, and what an excused
// snapshot held, is none. It needs the objects of every epoch: see Archive.
func (h *History) Tails() []Tail {
	var out []Tail
	for _, key := range slices.SortedFunc(maps.Keys(h.Trails), func(a, b messages.Key) int { return cmp.Compare(a.String(), b.String()) }) {
		v := h.view(key)
		pinned := v.lineage.pinned()
		for i := range pinned[:max(len(pinned)-1, 0)] {
			if tail := v.tail(pinned[i], pinned[i+1]); len(tail.Writes) > 0 {
				out = append(out, tail)
			}
		}
	}
	return out
}

func (v *view) tail(epoch, next uint64) Tail {
	mine, ok := v.grant(epoch)
	theirs, okNext := v.grant(next)
	if !ok || !okNext || theirs.Floor >= epoch || v.excusedEpoch(epoch) {
		return Tail{}
	}
	t := Tail{Key: v.key, Epoch: epoch, Owner: mine.Owner, Granted: mine.At, Next: theirs.At}
	for _, e := range v.trail {
		t.Released = t.Released || e.Op == messages.OpRelease && e.Epoch == epoch
	}
	for _, l := range v.lifecycle {
		switch {
		case l.Epoch != epoch || l.Owner != mine.Owner:
		case l.Kind == messages.LifecycleFenced && l.Reason == messages.ReasonExpiredLocally:
			t.Fenced = l.At
		case l.Kind == messages.LifecycleClosed:
			t.Closed = l.At
		case l.Kind == messages.LifecycleResumed:
			t.Fenced = time.Time{}
		}
	}
	var restored int64
	if from := v.lineage.epochs[next].base.From; !from.IsEmpty() {
		restored = v.lineage.epochs[from.Epoch].manifests[from.Snapshot].LastSeq
	}
	for _, w := range v.writes {
		if w.Outcome == Acked && w.Epoch == epoch && w.Seq > restored && !w.Duplicate {
			t.Writes = append(t.Writes, w)
		}
	}
	slices.SortFunc(t.Writes, func(a, b Write) int { return cmp.Compare(a.Seq, b.Seq) })
	return t
}
