package ledgeractor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/leasehold/leasehold/messages"
)

// runCode runs application code in a Tx, on a goroutine of its own: code that hangs, or that ends
// its goroutine, must not take the actor with it. The caller has set a savepoint, and undoes it if
// an error comes back.
func (g *guard) runCode(ctx context.Context, shared bool, f func(tx *Tx) error) (*Tx, error) {
	tx := g.newTx(ctx, shared)
	done := make(chan error, 1)
	g.start(tx)
	go func() {
		var err error
		returned := false
		defer func() {
			if !returned {
				err = g.panicked(recover())
			}
			done <- err
		}()
		err = f(tx)
		returned = true
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done: // both: what it said is more telling
		default:
		}
	}
	g.finish(tx)
	if err == nil {
		err = ctx.Err() // too late is too late, even if it has done its work
	}
	return tx, g.codeError(ctx, err)
}

// panicked makes an error of what recover returned; nil stands for runtime.Goexit.
func (g *guard) panicked(value any) error {
	// The value may hold personal data: the log gets its type, and the error's text stays here.
	g.cfg.Log.Error("panic in application code", "key", g.fail.key, "type", fmt.Sprintf("%T", value), "stack", string(debug.Stack()))
	if value == nil {
		return &messages.Error{Code: messages.CodePanic, Key: g.fail.key, Message: "application code ended its goroutine"}
	}
	err, ok := value.(error)
	if !ok {
		err = fmt.Errorf("panic: %v", value)
	}
	return &messages.Error{Code: messages.CodePanic, Key: g.fail.key, Message: "application code panicked", Err: err}
}

// codeError makes an error of application code typed. Its own error stays reachable, and travels if it is an ApplicationError.
func (g *guard) codeError(ctx context.Context, err error) error {
	var typed *messages.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typed) && (typed.Key == g.fail.key || !aboutATenant(typed.Code)):
		return err
	case ctx.Err() != nil:
		return messages.AsError(ctx.Err())
	}
	failed := &messages.Error{Code: messages.CodeCommandFailed, Key: g.fail.key, Message: "application code failed", Err: err}
	if typed != nil {
		failed.Cause = typed.Code
	}
	var told *messages.ApplicationError
	if errors.As(err, &told) {
		failed.Message, failed.Application = "application code returned an error", told
		if fault := told.Validate(); fault != nil {
			failed.Message, failed.Application, failed.Err = "application code failed", nil, errors.Join(fault, err)
		}
	}
	return failed
}

// noteFailure logs why a command failed, if that is a matter of its own code: its caller is not told. Never what it was called with.
func (g *guard) noteFailure(command string, err error) {
	switch e := messages.AsError(err); {
	case e.Code == messages.CodePanic: // its value may hold anything
		g.cfg.Log.Warn("a command failed", "key", g.fail.key, "command", command, "code", e.Code)
	case e.Code == messages.CodeSQL, e.Code == messages.CodeCommandFailed && e.Application == nil:
		g.cfg.Log.Warn("a command failed", "key", g.fail.key, "command", command, "code", e.Code, "error", detailOf(err))
	}
}

// aboutATenant reports whether callers try again after a code, or go elsewhere. What application code was told about
// another tenant must not read as if this one had refused the work: a command would run again and again.
func aboutATenant(code messages.Code) bool {
	switch code {
	case messages.CodeHeld, messages.CodeLost, messages.CodeUnavailable, messages.CodeFenced, messages.CodeUnknownOutcome, messages.CodeDraining,
		messages.CodeOverloaded, messages.CodeUnsavedLimit, messages.CodeClosed, messages.CodeNotOwner, messages.CodeHistoryLost, messages.CodeDeadlineExceeded, messages.CodeCanceled:
		return true
	}
	return false
}
