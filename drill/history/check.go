package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Check judges the history and returns every broken rule, in the order of the keys. It changes
// nothing. ctx bounds the reading of images.
func (h *History) Check(ctx context.Context) []Violation {
	keys := map[messages.Key]bool{}
	for key := range h.Trails {
		keys[key] = true
	}
	for _, w := range h.Writes {
		keys[w.Key] = true
	}
	for key := range h.Final {
		keys[key] = true
	}
	var out []Violation
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(a, b messages.Key) int { return cmp.Compare(a.String(), b.String()) }) {
		out = append(out, h.view(key).check(ctx)...)
	}
	return out
}

// view is what a history says about one tenant.
type view struct {
	h         *History
	key       messages.Key
	grants    []messages.LeaseEntry // acquires, in order
	trail     []messages.LeaseEntry
	lifecycle []messages.Lifecycle
	writes    []Write // with their epochs filled in
	reads     []Read
	lineage   lineage
	images    map[messages.Position][]Row // of those that were read
	out       []Violation
}

func (h *History) view(key messages.Key) *view {
	v := &view{h: h, key: key, trail: h.Trails[key], lineage: readLineage(key, h.Objects), images: map[messages.Position][]Row{}}
	for _, e := range v.trail {
		if e.Op == messages.OpAcquire || e.Op == messages.OpReseed { // which uses up an epoch
			v.grants = append(v.grants, e)
		}
	}
	for _, l := range h.Lifecycle {
		if l.Key == key {
			v.lifecycle = append(v.lifecycle, l)
		}
	}
	for _, w := range h.Writes {
		if w.Key == key {
			if w.Epoch == 0 {
				w.Epoch = v.epochOf(w.Owner, w.Sent, w.Answered)
			}
			v.writes = append(v.writes, w)
		}
	}
	for _, r := range h.Reads {
		if r.Key == key {
			if r.Epoch == 0 {
				r.Epoch = v.epochOf(r.Owner, r.Sent, r.Answered)
			}
			v.reads = append(v.reads, r)
		}
	}
	return v
}

// epochOf returns the epoch that an owner served during a whole request; 0 if it served another one
// too, or if that is not known.
func (v *view) epochOf(owner string, sent, answered time.Time) uint64 {
	if answered.IsZero() {
		return 0
	}
	var at uint64
	for _, l := range v.lifecycle {
		if l.Owner != owner || l.Kind != messages.LifecycleServing || l.At.After(answered) {
			continue
		}
		if at != 0 && !l.At.Before(sent) {
			return 0 // a later epoch began to serve meanwhile
		}
		at = l.Epoch
	}
	return at
}

func (v *view) fail(rule string, epoch uint64, format string, args ...any) {
	v.out = append(v.out, Violation{Rule: rule, Key: v.key, Epoch: epoch, Text: fmt.Sprintf(format, args...)})
}

func (v *view) check(ctx context.Context) []Violation {
	v.out = append(v.out, v.lineage.bad...)
	v.checkEpochs()
	v.checkWriters()
	v.checkAcks()
	v.checkReplies()
	v.checkPins()
	v.checkObjects()
	v.checkCounted()
	v.checkForget()
	v.checkRows(ctx)
	v.checkCuts()
	return v.out
}

// grant returns the grant of an epoch.
func (v *view) grant(epoch uint64) (messages.LeaseEntry, bool) {
	for _, g := range v.grants {
		if g.Epoch == epoch {
			return g, true
		}
	}
	return messages.LeaseEntry{}, false
}

// clocked reports whether an owner's clock can be relied on at an instant.
func (v *view) clocked(owner string, at time.Time) bool {
	since, wrong := v.h.Clockless[owner]
	return !wrong || at.Before(since)
}

func (v *view) excused(p messages.Position) bool { return v.h.Excused[v.key][p] }

func (v *view) excusedEpoch(epoch uint64) bool {
	for p := range v.h.Excused[v.key] {
		if p.Epoch == epoch && p.Snapshot > 0 {
			return true
		}
	}
	return false
}

// finalFloor is the highest floor of the trail.
func (v *view) finalFloor() uint64 {
	var floor uint64
	for _, e := range v.trail {
		floor = max(floor, e.Floor)
	}
	return floor
}
