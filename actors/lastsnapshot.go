package actors

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
)

// The last snapshot. When a tenant's fence has closed by itself, its ledger takes no more work: one more
// image then holds everything that was ever acknowledged. The tenant tries to publish it for as long as
// nobody else has been granted the lease, however long that takes, and this node opens the tenant again only after
// that: so an outage of the stores costs nothing that was acknowledged (docs/protocol.md, "The last snapshot").
//
// It proves nothing: it does not count, no handoff concludes from it, and no copy is deleted on its
// strength. To everybody else it is an upload of a holder that was paused, which may land at any time:
// it lands before the next owner has sealed its slot, and is restored, or meets the seal.

// lastSnapshot is what a tenant knows of it.
type lastSnapshot struct {
	landed   uint64        // the ledger's version in the newest published snapshot, whether that counts or not
	tries    int           // that failed since the fence closed
	pausing  bool          // the next try is on its way
	why      error         // the lease is lost: the actor ends with this when the snapshot has landed, or cannot; else nil
	patience time.Duration // how long the next try may take once the lease is lost
	usual    time.Duration // how long the newest snapshot took to land
	// cutting ends the newest ordinary cut, from any goroutine.
	cutting atomic.Pointer[context.CancelFunc]
}

type (
	lastAgain struct{}
	lastHurry struct{}
	lastLook  struct{} // whether somebody else has been granted the lease
)

// expiredLocally is the error of a fence that has closed by itself, and that a renewal may open again.
var expiredLocally = &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonExpiredLocally}

// lastIsDue reports whether the fence has closed by itself and the store does not hold everything yet.
func (t *tenant) lastIsDue() bool {
	if t.snaps == nil || !t.unsaved() {
		return false
	}
	switch t.state {
	case StateServing:
		return errors.Is(t.fence.Check(), expiredLocally)
	case StateDraining:
		// A forget that has got this far may still go on.
		return t.forgetOp == nil && errors.Is(t.fence.Check(), expiredLocally)
	case StateClosing:
		return t.last.why != nil
	}
	return false
}

// saveLast asks for the last snapshot if it is due, and no snapshot is under way.
func (t *tenant) saveLast() {
	if t.last.pausing || !t.lastIsDue() {
		return
	}
	if len(t.takes) > 0 {
		// What is being uploaded is waited for. What was not cut by now cannot be, but may wait behind a
		// transaction until it learns that.
		if cancel := t.last.cutting.Load(); cancel != nil {
			(*cancel)()
		}
		return
	}
	// Read after the fence was found closed: whatever was acknowledged is in this version.
	version := t.handle.Version()
	t.takes = append(t.takes, take{begun: t.node.cfg.Now(), last: true})
	t.snaps.Send(snapshotactor.Take{Reason: "last", Last: true, Version: version})
}

// afterTake goes on when a snapshot was answered.
func (t *tenant) afterTake(k take, m snapshotactor.Taken) {
	if k.last && m.Err != nil && m.Manifest.Snapshot == 0 {
		if hopeless(m.Err) {
			if t.waitsForTheFence() {
				t.undrain(m.Err)
			}
			t.endWithoutLast()
			return
		}
		t.last.tries++
		t.last.pausing = true
		if t.last.why != nil {
			t.node.raise(t.lastAwaited(m.Err))
		}
		// When both stores are back, a successor may be as quick to acquire as this is to publish.
		t.self.After(min(20*time.Millisecond<<min(t.last.tries, 10), t.node.cfg.TTL/20), lastAgain{})
		return
	}
	if t.last.why != nil && !t.lastIsDue() {
		t.endWithoutLast() // it has landed
		return
	}
	t.goOnDraining()
	t.saveLast()
}

// lastAwaited is the alarm of a tenant whose lease is lost, and whose last snapshot cannot be published.
func (t *tenant) lastAwaited(why error) *messages.Error {
	return &messages.Error{Code: messages.CodeUnavailable, Key: t.key.String(), Epoch: t.granted.Epoch, Err: why,
		Message: "the lease is lost, and the last snapshot cannot be published: the tenant is not opened again on this node before"}
}

// hopeless reports whether trying again cannot help. A number whose fate is open never is.
func hopeless(err error) bool {
	switch messages.CodeOf(err) {
	case messages.CodeFenced, messages.CodeClosed, messages.CodeCorrupt, messages.CodeTooLarge, messages.CodeInvalidArgument, messages.CodeInternal:
		return true
	}
	return false
}

// lastBeforeTheEnd keeps a tenant that has lost its lease until its last snapshot has landed, and reports whether it
// does. A refused renewal means that the lease has run out; if it names a later epoch, a successor was faster.
func (t *tenant) lastBeforeTheEnd(lost error) bool {
	if t.state != StateServing && t.state != StateDraining || messages.AsError(lost).Epoch > t.granted.Epoch {
		return false
	}
	t.setState(StateClosing)
	t.forgetOp = nil // it was still draining: nothing of it was sent, and nothing will be
	// A try that hangs is made again, but one that is merely as slow as the last one is left alone.
	t.last.why, t.last.pausing, t.last.patience = lost, false, max(t.node.cfg.StoreTimeout, 2*t.last.usual)
	if !t.lastIsDue() {
		t.last.why = nil
		return false
	}
	if t.last.tries > 0 {
		// The durable store was away too. What is under way may wait for an answer that was lost with it.
		t.snaps.Send(snapshotactor.Hurry{})
	}
	t.self.After(t.last.patience, lastHurry{})
	t.self.After(t.node.cfg.RenewEvery, lastLook{})
	t.saveLast()
	return true
}

// lookForSuccessor asks the lease store whether somebody else has been granted the lease. Whatever is published from
// then on is not restored, and callers must be told who serves.
func (t *tenant) lookForSuccessor() {
	if t.last.why == nil {
		return
	}
	epoch := t.granted.Epoch
	t.self.Go(func(ctx context.Context) any {
		lease, known, err := t.node.Lease(ctx, t.key)
		return successor{err == nil && known && lease.Epoch > epoch}
	})
}

func (t *tenant) succeeded(m successor) {
	if m.taken {
		t.endWithoutLast()
		return
	}
	t.self.After(t.node.cfg.RenewEvery, lastLook{})
}

// hurryLast ends a try that takes long, for another one that may take twice as long.
func (t *tenant) hurryLast() {
	if t.last.why == nil {
		return
	}
	t.snaps.Send(snapshotactor.Hurry{})
	t.last.patience *= 2
	t.self.After(t.last.patience, lastHurry{})
}

// endWithoutLast ends a tenant that was only waiting for its last snapshot.
func (t *tenant) endWithoutLast() {
	if why := t.last.why; why != nil {
		t.last.why = nil
		t.node.clearAlarm(messages.CodeUnavailable, t.key.String())
		t.endLost(why)
	}
}

// stopLast ends a last snapshot that is under way: the lease is about to be given up.
func (t *tenant) stopLast() {
	if slices.ContainsFunc(t.takes, func(k take) bool { return k.last }) {
		t.snaps.Stop()
	}
}
