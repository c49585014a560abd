package leaseactor

import (
	"errors"

	"github.com/leasehold/leasehold/messages"
)

func isLost(err error) bool { return errors.Is(err, messages.ErrLost) }

// isDefinite reports whether a store has answered that the request had no effect and never will.
// Anything that is not known to say so is a lost answer.
func isDefinite(err error) bool {
	switch messages.CodeOf(err) {
	case messages.CodeHeld, messages.CodeLost, messages.CodeOutOfRange, messages.CodeInvalidID, messages.CodeInvalidArgument:
		return true
	}
	return false
}

// noAnswer returns err as an error with CodeUnavailable: the request may or may not take effect.
func (h *Holder) noAnswer(err error) error {
	if errors.Is(err, messages.ErrUnavailable) {
		return err
	}
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeOf(err), Key: h.cfg.Key.String(),
		Message: "the lease store gave no answer", Err: err}
}
