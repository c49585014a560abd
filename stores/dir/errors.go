package dir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
)

// isAbsent reports whether err says that there is no file of that name.
func isAbsent(err error) bool {
	// ENOTDIR: a folder on the way is an object, so nothing can be below it.
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// foreign is for what stands in the place of an object and is no file of this store. It is not taken for an object, nor for
// an absent one: whoever put it there has to say what it is.
func foreign(key string, mode fs.FileMode) error {
	what := "no regular file"
	if mode&fs.ModeSymlink != 0 {
		what = "a symbolic link, which the directory store does not follow"
	}
	return &messages.Error{Code: messages.CodeCorrupt, Object: key, Message: "the object is " + what}
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
	return &messages.Error{Code: code, Object: object, Message: localfile.Because(what, err), Err: err}
}

// unknownError is for a failure after an effect became visible: it may or may not survive a power cut.
func unknownError(err error, object, what string) error {
	var typed *messages.Error
	if errors.As(err, &typed) {
		return err
	}
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeStorage, Object: object, Message: localfile.Because(what, err), Err: err}
}
