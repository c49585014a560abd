package history

import (
	"github.com/leasehold/leasehold/messages"
)

// checkForget: nothing is acknowledged at an epoch once its floor was set, a forget that was
// answered with "done" has set the floor, and nothing at or below it is left (S6, S11).
func (v *view) checkForget() {
	floors := map[uint64]messages.LeaseEntry{}
	for _, e := range v.trail {
		if e.Op == messages.OpForget {
			if _, ok := floors[e.Epoch]; !ok {
				floors[e.Epoch] = e
			}
		}
	}
	for _, w := range v.writes {
		if f, ok := floors[w.Epoch]; ok && w.Outcome == Acked && w.Answered.After(f.At.Add(v.h.Slack)) {
			v.fail("S6", w.Epoch, "the write %s was acknowledged %v after the floor was set to its epoch", w.ID, w.Answered.Sub(f.At))
		}
	}
	for _, o := range v.h.Orders {
		if o.Key != v.key || o.Name != OrderForget || o.Code != "" || o.Answered.IsZero() {
			continue
		}
		done := false
		for _, f := range floors {
			done = done || (f.Owner == o.Owner && !f.At.After(o.Answered.Add(v.h.Slack)) && !f.At.Add(v.h.Slack).Before(o.Sent))
		}
		if !done && len(v.trail) > 0 {
			v.fail("S6", 0, "a forget at %s was answered with done, and no floor was set meanwhile", o.Owner)
		}
	}
	floor := v.finalFloor()
	left := v.h.Left
	if left == nil && !v.h.Archive {
		for name := range v.h.Objects {
			left = append(left, name)
		}
	}
	for _, name := range left {
		if o, err := messages.ParseObject(name); err == nil && o.Key == v.key && o.Epoch <= floor {
			v.fail("S11", o.Epoch, "%s is left, although everything up to epoch %d was forgotten", name, floor)
		}
	}
}
