// Package planted names the faults that can be planted in the protocol on purpose. Each switches
// one rule of docs/protocol.md off, so that the tests, the simulation and the drill can prove that
// they would find its absence. A system in production never sets one; cmd/node refuses to start
// with one unless the drill asks for it.
package planted

import (
	"fmt"
	"slices"
	"strings"
)

// Fault is one rule left out.
type Fault uint

// The faults, each with the rule that it breaks.
const (
	// Lease (leaseactor).

	WindowFromAnswer      Fault = iota // the window runs from the answer, not from the sending (D1)
	MarginZero                         // the margin is ignored (D1, clocks that drift)
	LateAnswerNewestSent               // the late answer of a timed-out renewal is taken for the newest one's
	ServeAfterLostRelease              // a release whose answer was lost puts the holder back to serving
	AdoptWithoutRenewal                // a lost acquire is adopted with the window of the read-back
	AdoptReleasedEpoch                 // a lost acquire adopts an epoch for which a release or forget was sent
	NoSelfFence                        // the holder never fences itself by its own clock
	IgnoreLeaseLost                    // a refused renewal does not end the holder (D4)

	// Open (snapshotactor, actors).

	ListBeforeGrant   // the listing is taken before the lease is granted
	AdoptOwnBase      // a base at one's own epoch that this attempt did not put is adopted
	NewestObject      // the restore takes the newest image instead of following the pins
	IgnoreFloor       // objects at or below the floor are restored
	PinBeforeVerify   // the base is pinned before the image was verified
	NoSeal            // the predecessor's next slots are not sealed
	SealBaseSlotsOnly // the predecessor's next manifest slot is not sealed
	ServeBeforePin    // work is acknowledged before the base is pinned
	PinAnswerGuessed  // "already there" at the pin is taken for one's own lost success
	NumbersAsText     // snapshot numbers are compared as text
	NoVerify          // a restored image is not verified (S2, S5)

	// Serve (ledgeractor, snapshotactor, actors).

	AckBeforeCommit      // work is acknowledged before its commit
	NoFenceBeforeCommit  // the fence is not checked just before the commit
	NoFenceAfterCommit   // the fence is not checked after the commit: work that outlived the lease is acknowledged
	RefuseAfterCommit    // work found fenced after its commit is answered "fenced" instead of "unknown outcome"
	IgnoreSlotTaken      // "already there" with other bytes at one's own slot is ignored
	ManifestBeforeImage  // the manifest is put before its image
	ImageTimeoutOK       // a lost answer to the put of an image is taken for a success
	RecutNumber          // a doubtful number is cut again with other bytes
	SnapshotGap          // a doubtful number is given up and the next one used
	CleanupHalfPublished // a doubtful image is deleted and put again
	ConfirmWithoutFence  // a snapshot counts as taken although the fence is closed after its manifest

	// Retention (snapshotactor, actors).

	RetentionNoRenewal     // old copies are deleted without a renewal after the snapshot
	RetentionRenewalBefore // … after a renewal that was sent before the snapshot was published
	RetentionOwnBase       // retention deletes the pin of its own epoch
	RetentionSweepsSeals   // retention deletes seals

	// Forget (snapshotactor, actors).

	ForgetDeleteFirst  // copies are deleted before the floor is set
	ForgetTenantPrefix // copies are deleted by the tenant's prefix, not epoch by epoch
	ForgetResume       // a forget whose answer was lost goes back to serving

	count
)

var names = [count]string{
	"window-from-answer", "margin-zero", "late-answer-newest-sent", "serve-after-lost-release", "adopt-without-renewal",
	"adopt-released-epoch", "no-self-fence", "ignore-lease-lost",
	"list-before-grant", "adopt-own-base", "newest-object", "ignore-floor", "pin-before-verify", "no-seal",
	"seal-base-slots-only", "serve-before-pin", "pin-answer-guessed", "numbers-as-text", "no-verify",
	"ack-before-commit", "no-fence-before-commit", "no-fence-after-commit", "refuse-after-commit", "ignore-slot-taken",
	"manifest-before-image", "image-timeout-ok", "recut-number", "snapshot-gap", "cleanup-half-published", "confirm-without-fence",
	"retention-no-renewal", "retention-renewal-before", "retention-own-base", "retention-sweeps-seals",
	"forget-delete-first", "forget-tenant-prefix", "forget-resume",
}

// String returns the fault's name, as Parse reads it.
func (f Fault) String() string {
	if f < count {
		return names[f]
	}
	return fmt.Sprintf("planted.Fault(%d)", uint(f))
}

// Set is a set of faults. The zero Set is empty: the protocol as it should be.
type Set uint64

// Of returns the set of the given faults.
func Of(faults ...Fault) Set {
	var s Set
	for _, f := range faults {
		s |= 1 << f
	}
	return s
}

// Has reports whether f is planted.
func (s Set) Has(f Fault) bool { return s&(1<<f) != 0 }

// String returns the names, joined by commas.
func (s Set) String() string {
	var out []string
	for _, f := range All() {
		if s.Has(f) {
			out = append(out, f.String())
		}
	}
	return strings.Join(out, ",")
}

// All returns every fault in order.
func All() []Fault {
	out := make([]Fault, count)
	for i := range out {
		out[i] = Fault(i)
	}
	return out
}

// Parse reads names joined by commas; the empty string is the empty set.
func Parse(s string) (Set, error) {
	var set Set
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		i := slices.Index(names[:], name)
		if i < 0 {
			return 0, fmt.Errorf("unknown planted fault %q; known: %s", name, strings.Join(names[:], ", "))
		}
		set |= 1 << i
	}
	return set, nil
}
