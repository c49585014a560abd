package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

// State says what a member takes.
type State string

// The states of a member.
const (
	StateServing State = "serving"
	StateFull    State = "full"    // its disk is full: it keeps the tenants that it can serve, and takes no new ones
	StateLeaving State = "leaving" // it hands its tenants over, and takes no new ones
	stateGone    State = "gone"    // the last word of a member
)

// Info is what a member says about itself.
type Info struct {
	// Owner is the node's owner id, Name what stays of it over restarts.
	Owner string `json:"owner"`
	Name  string `json:"name"`
	// Started is when it joined, by its own clock.
	Started time.Time `json:"started"`
	State   State     `json:"state"`
	// Open is the number of tenants that it serves.
	Open int `json:"open"`
	// Needs is the newest version of an application that one of these tenants needs, App is the application in the member.
	Needs int        `json:"needs,omitempty"`
	App   actors.App `json:"app"`
}

// heard is a member, and when it was heard last.
type heard struct {
	Info
	at time.Time
}

// view is what a member knows of the others: soft state. It decides where a request is tried first, and
// never who may serve. It belongs to the member's own goroutine.
type view struct {
	every, deadAfter time.Duration
	others           map[string]heard
	ticked           time.Time
	deaf             bool // as of the last tick, nobody could be heard for a while
}

// maxMembers bounds the others that a member knows. More than that are no cluster, but somebody who makes heartbeats up.
const maxMembers = 1000

func newView(every, deadAfter time.Duration, now time.Time) *view {
	return &view{every: every, deadAfter: deadAfter, others: make(map[string]heard), ticked: now}
}

// hear takes a heartbeat and reports whether it changed who there is.
func (v *view) hear(i Info, now time.Time) bool {
	before, known := v.others[i.Owner]
	if i.State == stateGone {
		delete(v.others, i.Owner)
		return known
	}
	if !known && len(v.others) >= maxMembers {
		return false
	}
	v.others[i.Owner] = heard{i, now}
	return !known || before.State != i.State
}

// tick drops the members that were not heard for too long and reports whether there were any. While
// this member is cut off, or was paused itself, nobody could be heard: the last view is kept.
func (v *view) tick(connected bool, now time.Time) bool {
	v.deaf = !connected || now.Sub(v.ticked) > 2*v.every
	v.ticked = now
	changed := false
	for owner, h := range v.others {
		switch {
		case v.deaf:
			h.at = now
			v.others[owner] = h
		case now.Sub(h.at) > v.deadAfter:
			delete(v.others, owner)
			changed = true
		}
	}
	return changed
}

// members returns everybody, self included, in the order of their owner ids.
func (v *view) members(self Info) []Info {
	out := []Info{self}
	for _, h := range v.others {
		out = append(out, h.Info)
	}
	slices.SortFunc(out, func(a, b Info) int { return cmp.Compare(a.Owner, b.Owner) })
	return out
}

// heardAt returns when each of the others was heard last.
func (v *view) heardAt() map[string]time.Time {
	out := make(map[string]time.Time, len(v.others))
	for owner, h := range v.others {
		out[owner] = h.at
	}
	return out
}

// roster is an immutable copy of a view that requests look at.
type roster struct {
	self  string
	all   []Info
	heard map[string]time.Time // by owner; without this member
}

// shunned reports whether an owner should be passed over because a client got no answer from it. A member that was
// heard since a moment ago is alive, whatever the client has met: it is slow, or waits for a store, and if it was the
// last owner of a tenant it may have something to save before anybody else takes over.
func (r *roster) shunned(owner string, avoid []string, since time.Time) bool {
	if !slices.Contains(avoid, owner) || owner == r.self {
		return false
	}
	return r.heard[owner].Before(since)
}

// live reports whether an owner is a member, also one that leaves.
func (r *roster) live(owner string) bool {
	return slices.ContainsFunc(r.all, func(i Info) bool { return i.Owner == owner })
}

// serving reports whether an owner is a member that takes tenants.
func (r *roster) serving(owner string) bool {
	return slices.ContainsFunc(r.all, func(i Info) bool { return i.Owner == owner && i.State == StateServing })
}

// suggest returns who should try to acquire a tenant that nobody holds; "": nobody can. The owners in avoid
// come last; without is not suggested at all.
func (r *roster) suggest(key messages.Key, avoid []string, without string) string {
	var willing, fallback []Info
	for _, i := range r.all {
		switch {
		case i.State != StateServing || i.Owner == without:
		case slices.Contains(avoid, i.Owner):
			fallback = append(fallback, i)
		default:
			willing = append(willing, i)
		}
	}
	if found, ok := best(willing, key); ok {
		return found.Owner
	}
	found, _ := best(fallback, key)
	return found.Owner
}
