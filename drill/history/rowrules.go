package history

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// status is what is known about one ID.
type status struct {
	acked, possible bool // an attempt was acknowledged; an attempt may stand
	attempts        int
	group           string
}

// checkRows judges what is in the ledgers: images of the lineage, reads, and the final state.
func (v *view) checkRows(ctx context.Context) {
	ids, groups := map[string]*status{}, map[string]int{}
	for _, w := range v.writes {
		s := ids[w.ID]
		if s == nil {
			s = &status{group: w.Group}
			ids[w.ID] = s
		}
		s.attempts++
		s.acked = s.acked || w.Outcome == Acked
		s.possible = s.possible || w.Outcome != Refused
	}
	for _, s := range ids {
		if s.possible { // whatever became of the rest, what was refused is not part of it
			groups[s.group]++
		}
	}
	v.readImages(ctx)
	for _, p := range slices.SortedFunc(maps.Keys(v.images), comparePositions) {
		v.checkState(p.String(), p.Epoch, v.images[p], ids, true)
		v.checkGroups(p.String(), p.Epoch, v.images[p], ids, groups)
		v.checkGrowth(p)
	}
	for _, r := range v.reads {
		what := fmt.Sprintf("a read at %s", r.Owner)
		v.checkState(what, r.Epoch, r.Rows, ids, r.After == 0)
		v.checkRead(what, r)
		if r.After == 0 && !r.More {
			v.checkGroups(what, r.Epoch, r.Rows, ids, groups)
		}
	}
	v.checkAckedRows()
	v.checkDuplicates()
	if final, ok := v.h.Final[v.key]; ok {
		v.checkState("the final state", final.Epoch, final.Rows, ids, true)
		v.checkGroups("the final state", final.Epoch, final.Rows, ids, groups)
		v.checkFinal(final)
	}
}

// readImages reads the images that matter: those that an epoch began with, and each epoch's newest.
func (v *view) readImages(ctx context.Context) {
	want := map[messages.Position]messages.Manifest{}
	for n, e := range v.lineage.epochs {
		if m := e.newest(); m != nil {
			want[messages.Position{Epoch: n, Snapshot: m.Snapshot}] = *m
		}
		if e.base != nil && !e.base.From.IsEmpty() {
			if from := v.lineage.epochs[e.base.From.Epoch]; from != nil {
				if m, ok := from.manifests[e.base.From.Snapshot]; ok {
					want[e.base.From] = m
				}
			}
		}
	}
	for p, m := range want {
		image, ok := v.h.Objects[v.key.ImageName(p.Epoch, p.Snapshot)]
		if !ok || v.excused(p) {
			continue // checkObjects has its say about it
		}
		rows, err := ReadImage(ctx, image.Data)
		if err != nil {
			v.fail("S2", p.Epoch, "the image of %v cannot be read: %v", p, err)
			continue
		}
		last := int64(0)
		if len(rows) > 0 {
			last = rows[len(rows)-1].Seq
		}
		if int64(len(rows)) != m.Events || last != m.LastSeq {
			v.fail("S1", p.Epoch, "the manifest of %v says %d events up to %d, the image has %d up to %d", p, m.Events, m.LastSeq, len(rows), last)
		}
		v.images[p] = rows
	}
}

// checkState: each row is of this tenant (I6), was asked for (I4) and not refused (G2), and is there
// once, its idempotency key too (I4, W2).
func (v *view) checkState(what string, epoch uint64, rows []Row, ids map[string]*status, whole bool) {
	seen, keys := map[string]bool{}, map[string]bool{}
	for i, r := range rows {
		s := ids[r.ID]
		foreign := v.h.Foreign != nil && v.h.Foreign(r.ID)
		switch {
		case r.Tenant != v.key.Tenant:
			v.fail("I6", epoch, "%s holds a row of %s", what, r.Tenant)
		case foreign:
		case s == nil:
			v.fail("I4", epoch, "%s holds %q, which nobody wrote to this tenant", what, r.ID)
		case !s.possible:
			v.fail("G2", epoch, "%s holds %s, which was definitely refused", what, r.ID)
		case seen[r.ID], r.IdemKey != "" && keys[r.IdemKey]:
			v.fail("W2", epoch, "%s holds %s twice", what, r.ID)
		}
		if whole && r.Seq != int64(i)+1 {
			v.fail("I4", epoch, "%s has seq %d in place %d", what, r.Seq, i+1)
			return
		}
		seen[r.ID] = true
		if r.IdemKey != "" {
			keys[r.IdemKey] = true
		}
	}
}

// checkGrowth: a snapshot begins with the rows of the one that came before it in the lineage (I4).
func (v *view) checkGrowth(p messages.Position) {
	e := v.lineage.epochs[p.Epoch]
	var before *messages.Position
	for q := range v.images {
		if q.Epoch == p.Epoch && q.Snapshot < p.Snapshot && (before == nil || q.Snapshot > before.Snapshot) {
			before = &q
		}
	}
	if before == nil && e.base != nil && !e.base.From.IsEmpty() {
		before = &e.base.From
	}
	if before == nil {
		return
	}
	earlier, ok := v.images[*before]
	if !ok {
		return
	}
	rows := v.images[p]
	if len(rows) < len(earlier) || !slices.Equal(rows[:len(earlier)], earlier) {
		v.fail("I4", p.Epoch, "%v does not begin with the %d rows of %v", p, len(earlier), *before)
	}
}

// place is one row's place in the history of one epoch.
type place struct {
	epoch uint64
	seq   int64
}

// checkAckedRows: within an epoch a seq has one meaning for all who were told about it, and a write
// that was acknowledged is in every later snapshot of its epoch that reaches its seq (I4, I5).
func (v *view) checkAckedRows() {
	means := map[place]string{}
	say := func(epoch uint64, seq int64, id, who string) {
		if epoch == 0 {
			return
		}
		p := place{epoch, seq}
		if before, ok := means[p]; ok && before != id {
			v.fail("I4", epoch, "seq %d is %s to %s, and %s to somebody else", seq, id, who, before)
			return
		}
		means[p] = id
	}
	for p, rows := range v.images {
		for _, r := range rows {
			say(p.Epoch, r.Seq, r.ID, p.String())
		}
	}
	for _, r := range v.reads {
		for _, row := range r.Rows {
			say(r.Epoch, row.Seq, row.ID, "a read")
		}
	}
	for _, w := range v.writes {
		if w.Outcome == Acked {
			say(w.Epoch, w.Seq, w.ID, "its client")
		}
	}
	v.checkGraceful()
}

// checkGraceful: an epoch that ended with everything flushed loses no acknowledged write (H1, I5).
func (v *view) checkGraceful() {
	pinned := v.lineage.pinned()
	for _, l := range v.lifecycle {
		if l.Kind != messages.LifecycleReleased || l.Flushed == nil || !*l.Flushed {
			continue
		}
		i, found := slices.BinarySearch(pinned, l.Epoch)
		if !found || i+1 == len(pinned) {
			continue
		}
		next := pinned[i+1]
		if g, ok := v.grant(next); ok && g.Floor >= l.Epoch {
			continue
		}
		from := v.lineage.epochs[next].base.From
		rows, ok := v.images[from]
		if !ok && !from.IsEmpty() || v.excusedEpoch(l.Epoch) {
			continue
		}
		for _, w := range v.writes {
			if w.Epoch == l.Epoch && w.Outcome == Acked && !slices.ContainsFunc(rows, func(r Row) bool { return r.ID == w.ID }) {
				v.fail("I5", l.Epoch, "%s was acknowledged, its epoch ended gracefully, and epoch %d begins without it", w.ID, next)
			}
		}
	}
}

// checkRead: a read sees what its own client was told before (read your writes), and no gap.
func (v *view) checkRead(what string, r Read) {
	for i, row := range r.Rows {
		if row.Seq != r.After+int64(i)+1 {
			v.fail("I4", r.Epoch, "%s after seq %d has seq %d in place %d", what, r.After, row.Seq, i+1)
			return
		}
	}
	if r.More || r.Epoch == 0 {
		return
	}
	last := r.After + int64(len(r.Rows))
	for _, w := range v.writes {
		if w.Epoch == r.Epoch && w.Outcome == Acked && w.Owner == r.Owner && w.Answered.Before(r.Sent) && w.Seq > last && w.Seq > r.After {
			v.fail("I4", r.Epoch, "%s ends at seq %d, although %s was acknowledged at %d before it was asked", what, last, w.ID, w.Seq)
			return
		}
	}
}

// checkFinal: what is served in the end is exactly what the durable copies describe (I4).
func (v *view) checkFinal(final State) {
	pinned := v.lineage.pinned()
	i, found := slices.BinarySearch(pinned, final.Epoch)
	if !found {
		v.fail("I4", final.Epoch, "the final owner serves an epoch that is not pinned")
		return
	}
	from := v.lineage.epochs[pinned[i]].base.From
	rows, ok := v.images[from]
	if !ok && !from.IsEmpty() {
		return
	}
	if !slices.Equal(rows, final.Rows) {
		v.fail("I4", final.Epoch, "the final owner serves %d rows, its base %v has %d, or others", len(final.Rows), from, len(rows))
	}
}

func comparePositions(a, b messages.Position) int {
	switch {
	case a.Epoch != b.Epoch:
		if a.Epoch < b.Epoch {
			return -1
		}
		return 1
	case a.Snapshot != b.Snapshot:
		if a.Snapshot < b.Snapshot {
			return -1
		}
		return 1
	}
	return 0
}
