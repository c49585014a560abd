package nats

import (
	"context"
	"errors"

	"github.com/leasehold/leasehold/messages"
)

func errClosed() error {
	return &messages.Error{Code: messages.CodeClosed, Message: "the NATS store is closed"}
}

// contextError is CodeUnavailable, because the operation may take effect, with the end of the context as
// its Cause: errors.Is(err, context.DeadlineExceeded) works. last is what went wrong before, if anything.
func contextError(ctx context.Context, last error) error {
	err := context.Cause(ctx)
	if last != nil {
		err = last
	}
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeOf(ctx.Err()), Message: "the NATS store did not answer in time", Err: err}
}

// noRoom is for a server whose disk is full or failed, or whose limits are reached.
func noRoom(err error) error {
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeStorage, Message: "the NATS server cannot store the message", Err: err}
}

func corrupt(object, why string) error {
	return &messages.Error{Code: messages.CodeCorrupt, Object: object, Message: why}
}

func isCode(err error, code int) bool {
	var e *apiError
	return errors.As(err, &e) && e.ErrCode == code
}

// isRefusal reports whether JetStream refused a request for good.
func isRefusal(err error) bool {
	var e *apiError
	// 10005: the members of a young cluster do not know each other yet.
	return errors.As(err, &e) && e.Code != 503 && e.ErrCode != 10005
}

// openError types what kept a stream from being created.
func openError(stream string, err error) error {
	var typed *messages.Error
	if errors.As(err, &typed) {
		return err
	}
	return &messages.Error{Code: messages.CodeUnavailable, Object: stream, Message: "cannot create the stream", Err: err}
}
