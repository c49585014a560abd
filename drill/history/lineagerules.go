package history

import (
	"maps"
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// checkPins follows the pins from the first to the last: each names the newest state of its head, or
// what that head began with (S2, S3), and nothing forgotten (S6).
func (v *view) checkPins() {
	pinned := v.lineage.pinned()
	for i, n := range pinned {
		e := v.lineage.epochs[n]
		from, floor := e.base.From, uint64(0)
		if g, ok := v.grant(n); ok {
			floor = g.Floor
		}
		if !from.IsEmpty() && from.Epoch <= floor {
			v.fail("S6", n, "began with %v although everything up to epoch %d was forgotten", from, floor)
			continue
		}
		if !v.h.Archive {
			continue // what retention has deleted cannot be judged
		}
		var head *epoch
		var headNumber uint64
		if i > 0 && pinned[i-1] > floor {
			headNumber = pinned[i-1]
			head = v.lineage.epochs[headNumber]
		}
		switch {
		case head == nil:
			if !from.IsEmpty() {
				v.fail("S2", n, "began with %v, but no pinned epoch precedes it", from)
			}
		case from.Epoch == headNumber:
			if _, ok := head.manifests[from.Snapshot]; !ok {
				v.fail("S2", n, "began with %v, which was never published", from)
			}
		// Not pinned to its head's own snapshot: then it has none (an excused one is as good as none).
		case from != head.base.From && !v.excused(messages.Position{Epoch: headNumber, Snapshot: 1}):
			v.fail("S2", n, "began with %v, but its head is epoch %d, which began with %v", from, headNumber, head.base.From)
		}
		v.checkLeftBehind(n, headNumber, from)
	}
}

// checkLeftBehind: an epoch begins with the newest snapshot of its head that ever landed, whether it counted
// or not: what comes later than the listing meets the seal (S12).
func (v *view) checkLeftBehind(n, head uint64, from messages.Position) {
	if head == 0 || v.excusedEpoch(head) {
		return
	}
	newest := v.lineage.epochs[head].newest()
	if newest != nil && (from.Epoch != head || from.Snapshot != newest.Snapshot) {
		v.fail("S12", n, "began with %v, and snapshot %d of epoch %d has landed", from, newest.Snapshot, head)
	}
}

// checkObjects: manifests promise images that were there before them (S1), have no gaps (S), and
// repeat the base of their epoch.
func (v *view) checkObjects() {
	floor := v.finalFloor()
	for n, e := range v.lineage.epochs {
		if n <= floor && !v.h.Archive {
			continue
		}
		numbers := slices.Sorted(maps.Keys(e.manifests))
		for i, number := range numbers {
			m := e.manifests[number]
			position := messages.Position{Epoch: n, Snapshot: number}
			if i > 0 && number != numbers[i-1]+1 && v.h.Archive || i == 0 && number != 1 && v.h.Archive && !v.excused(messages.Position{Epoch: n}) {
				v.fail("S", n, "snapshot %d follows a gap", number)
			}
			if e.base != nil && m.Base != e.base.From {
				v.fail("S1", n, "the manifest of snapshot %d names the base %v, the pin says %v", number, m.Base, e.base.From)
			}
			if v.excused(position) {
				continue
			}
			if wrong := checkImage(v.key, v.h.Objects, m); wrong != "" {
				v.fail("S1", n, "%s", wrong)
				continue
			}
			image, manifest := v.h.Objects[v.key.ImageName(n, number)], v.h.Objects[v.key.ManifestName(n, number)]
			// Whoever was killed before it could say that its manifest had landed leaves no time of that.
			if !manifest.At.IsZero() && image.At.After(manifest.At) {
				v.fail("S1", n, "the image of snapshot %d landed %v after its manifest", number, image.At.Sub(manifest.At))
			}
		}
	}
	if v.h.Archive {
		v.checkSelfFences()
	}
}

// checkSelfFences: a holder is fenced by somebody else's bytes only, never by its own (S4, S10).
func (v *view) checkSelfFences() {
	for _, l := range v.lifecycle {
		if l.Kind != messages.LifecycleFenced || l.Reason != messages.ReasonSlotTaken {
			continue
		}
		others := false
		for name, o := range v.h.Objects {
			if p, err := messages.ParseObject(name); err == nil && p.Key == v.key && p.Epoch == l.Epoch && p.Kind != messages.ObjectFloor && o.By != l.Owner {
				others = true
				break
			}
		}
		if !others {
			v.fail("S10", l.Epoch, "%s fenced itself by its own bytes", l.Owner)
		}
	}
}

// checkCounted: a snapshot that counted is in the next owner's lineage, unless it was forgotten
// (S2, S9). A lost one is a lost promise, whatever destroyed it.
func (v *view) checkCounted() {
	pinned := v.lineage.pinned()
	for _, l := range v.lifecycle {
		if l.Kind != messages.LifecycleSnapshot || v.excused(l.Position) {
			continue
		}
		i, found := slices.BinarySearch(pinned, l.Epoch)
		if !found {
			if v.h.Archive && l.Epoch > 0 {
				v.fail("S2", l.Epoch, "%v counted at %s, but its epoch was never pinned", l.Position, l.Owner)
			}
			continue
		}
		if i+1 == len(pinned) {
			continue
		}
		next := pinned[i+1]
		if g, ok := v.grant(next); ok && g.Floor >= l.Epoch {
			continue
		}
		from := v.lineage.epochs[next].base.From
		if from.Epoch != l.Epoch || from.Snapshot < l.Position.Snapshot {
			v.fail("S2", l.Epoch, "%v counted at %s, but epoch %d began with %v", l.Position, l.Owner, next, from)
		}
	}
}
