package dir

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/leasehold/leasehold/messages"
)

var errNotDir = syscall.ENOTDIR

// isAbsent reports whether err says that there is no file of that name.
func isAbsent(err error) bool {
	// ENOTDIR: a folder on the way is an object, so nothing can be below it.
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// contextError has the end of the context as its Cause: errors.Is(err, context.Canceled) works.
func contextError(ctx context.Context) error {
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeOf(ctx.Err()), Message: "the directory store did not answer in time", Err: context.Cause(ctx)}
}

// storageError is for a failure that left nothing visible. Running out of file handles says nothing
// about the disk, and is CodeUnavailable.
func storageError(err error, object, what string) error {
	var typed *messages.Error
	if errors.As(err, &typed) {
		return err
	}
	code := messages.CodeStorage
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		code = messages.CodeUnavailable
	}
	return &messages.Error{Code: code, Object: object, Message: what, Err: err}
}

// unknownError is for a failure after an effect became visible: it may or may not survive a power cut.
func unknownError(err error, object, what string) error {
	var typed *messages.Error
	if errors.As(err, &typed) {
		return err
	}
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeStorage, Object: object, Message: what, Err: err}
}
