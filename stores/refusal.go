package stores

import (
	"time"

	"github.com/leasehold/leasehold/messages"
)

// What every LeaseStore checks and answers alike, for those who write one.

// Validate returns an error with CodeInvalidID or CodeOutOfRange unless the renewal can be asked for.
func (r Renewal) Validate() error {
	if err := ValidateHolder(r.Key, r.Owner); err != nil {
		return err
	}
	return messages.ValidateTTL(r.TTL)
}

// ValidateHolder returns an error with CodeInvalidID or CodeOutOfRange unless somebody with this name can
// hold a lease with this key.
func ValidateHolder(key messages.Key, owner string) error {
	if err := key.Validate(); err != nil {
		return err
	}
	return messages.ValidateOwner(owner)
}

// Why an operation of a supposed holder is refused: the messages of CodeLost.
const (
	NeverGranted = "the lease was never granted"
	OtherEpoch   = "the lease is at another epoch"
	OtherOwner   = "the lease has another owner"
	LeaseOver    = "the lease is over"
)

// Held is the refusal of an acquire, with CodeHeld: it names the present holder, and when to try again.
func Held(lease messages.Lease, left time.Duration) error {
	return &messages.Error{Code: messages.CodeHeld, Key: lease.Key.String(), Owner: lease.Owner, Epoch: lease.Epoch, Lease: &lease,
		RetryAfter: left, Message: "the lease is held"}
}

// Lost is the refusal of an operation that only the holder may do, with CodeLost: it names who is in the record.
func Lost(key messages.Key, lease messages.Lease, why string) error {
	return &messages.Error{Code: messages.CodeLost, Key: key.String(), Owner: lease.Owner, Epoch: lease.Epoch, Message: why}
}

// Holder returns Lost unless the present record of a key says that owner holds the lease at epoch. The zero
// Lease is the record of a key that was never granted; over says that the lease has ended, by the store's clock.
func Holder(key messages.Key, lease messages.Lease, over bool, owner string, epoch uint64) error {
	switch {
	case lease.Epoch == 0:
		return Lost(key, lease, NeverGranted)
	case lease.Epoch != epoch:
		return Lost(key, lease, OtherEpoch)
	case lease.Owner != owner:
		return Lost(key, lease, OtherOwner)
	case over:
		return Lost(key, lease, LeaseOver)
	}
	return nil
}
