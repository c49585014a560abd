package sim

import (
	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/messages"
)

// checkQueued: a write that waits when a handoff begins is carried out first (H1). What a stopped process was asked may wait anywhere.
func (w *world) checkQueued() {
	for _, released := range w.history.Lifecycle {
		l := w.lives[released.Owner]
		if l == nil || released.Kind != messages.LifecycleReleased || released.Flushed == nil || !*released.Flushed {
			continue
		}
		serving, draining := w.phases(released)
		if serving.At.IsZero() || draining.At.IsZero() {
			continue
		}
		for _, x := range w.history.Writes {
			waited := x.Key == released.Key && x.Owner == released.Owner && x.Sent.After(serving.At) && x.Sent.Before(draining.At) && !x.Answered.Before(draining.At)
			if waited && turnedAway(x) && !w.struckBetween(l, x.Sent, draining.At) {
				w.fail("H1", x.Key, "%s waited when the handoff of epoch %d began, and was answered %s %s", x.ID, released.Epoch, x.Code, x.Reason)
			}
		}
	}
}

// phases returns when an epoch that was released began to serve, and when its last drain began.
func (w *world) phases(released messages.Lifecycle) (serving, draining messages.Lifecycle) {
	for _, e := range w.history.Lifecycle {
		if e.Key != released.Key || e.Epoch != released.Epoch || e.Owner != released.Owner || e.At.After(released.At) {
			continue
		}
		switch e.Kind {
		case messages.LifecycleServing:
			serving = e
		case messages.LifecycleDraining:
			draining = e
		}
	}
	return serving, draining
}

// turnedAway reports whether a write was refused because of a handoff.
func turnedAway(x history.Write) bool {
	switch {
	case x.Outcome != history.Refused:
		return false
	case x.Code == messages.CodeFenced:
		return x.Reason == messages.ReasonReleased
	}
	return x.Code == messages.CodeDraining || x.Code == messages.CodeClosed
}
