package leaseactor

import "github.com/leasehold/leasehold/messages"

// The commands of an Actor, for mailbox.Ref.Send. Each is answered by one report, except that Renew
// commands which come together share one.
type (
	// Acquire asks for the lease: Acquired or AcquireFailed.
	Acquire struct{}
	// Renew renews it: Renewed, RenewFailed or Lost. Tag is the caller's: a number that rises.
	Renew struct{ Tag uint64 }
	// Release closes the fence as soon as it is received, and gives the lease back: Released. A Forget
	// that was not sent by then fails, so wait for Forgotten first.
	Release struct{}
	// Forget sets the floor: Forgotten. See Holder.MarkForgotten.
	Forget struct{}
	// MarkLineage records that the tenant has copies: LineageMarked. See Holder.MarkLineage.
	MarkLineage struct{}
)

// The reports of an Actor.
type (
	// Acquired says that the lease was granted, and the fence opened.
	Acquired struct{ Lease messages.Lease }
	// AcquireFailed says that it is not; see Holder.Acquire for the errors.
	AcquireFailed struct{ Err error }
	// Renewed says that a renewal was granted. Tag is the highest Tag of all Renew commands that had
	// been received BEFORE this renewal was sent: what happened before such a command was sent
	// happened before the renewal (contract S9).
	Renewed struct {
		Lease messages.Lease
		Tag   uint64
	}
	// RenewFailed says that a renewal had no answer (CodeUnavailable; the holder goes on to its
	// deadline), or that there is nothing to renew any more (CodeFenced; nothing was sent).
	RenewFailed struct{ Err error }
	// Lost says that the store refused: the fence is closed for good.
	Lost struct{ Err error }
	// Released answers Release; the fence is closed whatever Err says.
	Released struct{ Err error }
	// Forgotten answers Forget; Err is nil when the floor is set.
	Forgotten struct{ Err error }
	// LineageMarked answers MarkLineage; Err is nil when the record says so.
	LineageMarked struct{ Err error }
	// Expired says that the fence has closed because its window ran out, once for each time.
	Expired struct{}
	// Resumed follows the Renewed that opened an Expired fence again.
	Resumed struct{}
)
