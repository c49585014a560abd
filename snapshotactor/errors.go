package snapshotactor

import (
	"context"
	"errors"

	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
)

// corrupt says that an object failed its verification (S5).
func corrupt(object, message string, err error) error {
	return &messages.Error{Code: messages.CodeCorrupt, Key: tenantOf(object), Object: object, Message: message, Err: err}
}

// tenantOf returns the tenant's part of an object's name, or "" for what is none.
func tenantOf(object string) string {
	o, err := messages.ParseObject(object)
	if err != nil {
		return ""
	}
	return o.Key.String()
}

// unsupported says that an object is sound as far as this version can tell, but that it cannot apply
// it. It is not CodeCorrupt: an operator must not delete what only a newer version can read.
func unsupported(object, message string) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Key: tenantOf(object), Object: object, Message: message + "; a newer version of Leasehold is needed to restore it"}
}

// ahead says that the base slot o, of an epoch at or above the granted one, holds data that this attempt did not put there.
// Its Owner is that of the pin; "" for a seal.
func ahead(o messages.Object, data []byte, granted uint64) error {
	base, _, _ := decodeBase(o, data) // what is damaged is nobody's
	return &messages.Error{Code: messages.CodeLineageAhead, Key: o.Key.String(), Owner: base.Owner, Epoch: granted, Object: o.Name(),
		Message: "the durable store holds a pin at or above the granted epoch"}
}

func invalid(key messages.Key, message string) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Key: key.String(), Message: message}
}

// disk says that the local disk failed.
func disk(path string, err error) error {
	return &messages.Error{Code: messages.CodeStorage, Object: path, Message: localfile.Because("cannot write the local file", err), Err: err}
}

// ended says that ctx ended while calls of the store were, or may be, under way.
func ended(ctx context.Context, object string) error {
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeOf(ctx.Err()), Object: object,
		Message: "the durable store did not answer in time", Err: context.Cause(ctx)}
}

// permanent reports whether asking the store again is pointless. Everything else may be a lost
// answer.
func permanent(err error) bool {
	switch messages.CodeOf(err) {
	case messages.CodeInvalidID, messages.CodeInvalidArgument, messages.CodeOutOfRange, messages.CodeTooLarge,
		messages.CodeUnauthorized, messages.CodeClosed, messages.CodeCorrupt:
		return true
	}
	return false
}

// codeOrUnavailable makes sure that what the store returned is typed. A store whose disk is full is
// CodeUnavailable with that Cause: CodeStorage is the local disk, and another node would fare better with that.
func codeOrUnavailable(err error, object string) error {
	var typed *messages.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typed) && typed.Code != messages.CodeStorage:
		return err
	case typed != nil:
		return &messages.Error{Code: messages.CodeUnavailable, Cause: typed.Code, Object: object, Message: "the durable store is full, or its disk failed: " + typed.Message, Err: err}
	}
	return &messages.Error{Code: messages.CodeUnavailable, Object: object, Message: "the durable store failed", Err: err}
}
