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
	for _, f := range floors {
		v.checkForgetAsked(f)
	}
	floor := v.finalFloor()
	left := v.h.Left
	if left == nil && !v.h.Archive {
		for name := range v.h.Objects {
			left = append(left, name)
		}
	}
	for _, name := range left {
		if o, err := messages.ParseObject(name); err == nil && o.Key == v.key && o.Epoch <= floor && o.Kind != messages.ObjectFloor {
			v.fail("S11", o.Epoch, "%s is left, although everything up to epoch %d was forgotten", name, floor)
		}
	}
}

// checkForgetAsked: whoever was told that nothing was done is not forgotten all the same (Q1).
func (v *view) checkForgetAsked(floor messages.LeaseEntry) {
	var refused *Order
	for _, o := range v.h.Orders {
		if o.Key != v.key || o.Name != OrderForget || o.Owner != floor.Owner || o.Sent.After(floor.At.Add(v.h.Slack)) {
			continue
		}
		if o.Answered.IsZero() || o.Code == "" || o.Code == messages.CodeUnknownOutcome {
			return
		}
		refused = &o
	}
	if refused != nil {
		v.fail("Q1", floor.Epoch, "a forget at %s was refused with %s, which means that nothing was done, and the floor was set %v after it was sent",
			refused.Owner, refused.Code, floor.At.Sub(refused.Sent))
	}
}
