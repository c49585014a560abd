package messages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code is the stable, machine-readable name of a failure. Codes never change their meaning.
type Code string

// The codes of Leasehold. Each has a sentinel error (ErrHeld for CodeHeld, …) for errors.Is.
const (
	CodeInvalidID           Code = "invalid_id"           // a malformed organization, tenant, issuer, subject or key
	CodeInvalidArgument     Code = "invalid_argument"     // anything else about a request that can never work
	CodeOutOfRange          Code = "out_of_range"         // a ttl, owner or object key outside what the store allows
	CodeHeld                Code = "held"                 // another owner holds the lease; Owner, Epoch and RetryAfter say more
	CodeLost                Code = "lost"                 // the store refused: not the holder, or not any more
	CodeUnavailable         Code = "unavailable"          // a store did not answer; the operation may or may not have taken effect
	CodeFenced              Code = "fenced"               // the lease is not provably held; nothing was done. Reason says why
	CodeUnknownOutcome      Code = "unknown_outcome"      // the work may or may not stand; Cause says what interrupted it
	CodeDraining            Code = "draining"             // the tenant is being handed off, or the node is shutting down
	CodeOverloaded          Code = "overloaded"           // too many requests; RetryAfter says when to try again
	CodeClosed              Code = "closed"               // the object that was used is closed
	CodeNotOwner            Code = "not_owner"            // the node that was asked does not serve this tenant; Owner, if there, is who does, or should
	CodeIncapable           Code = "incapable"            // this node's application cannot serve the tenant, or has not the command; Owner, if there, can. Nothing was done
	CodeHistoryLost         Code = "history_lost"         // the caller has seen events that a crash has taken (the declared loss); nothing was done
	CodeCorrupt             Code = "corrupt"              // a durable or local copy failed its verification; Object names it
	CodeLineageAhead        Code = "lineage_ahead"        // the durable store knows an epoch at or above the granted one
	CodeLineageMissing      Code = "lineage_missing"      // the lease record says that there are copies, and the durable store has none
	CodeDeploymentMismatch  Code = "deployment_mismatch"  // the two stores do not belong together, or one was replaced under a running node
	CodeIdempotencyConflict Code = "idempotency_conflict" // the key was used for another event, command or input; nothing was done
	CodeReadOnly            Code = "read_only"            // a statement that is not a plain read where only reads are allowed
	CodeTooLarge            Code = "too_large"            // a request or a result is over its limit
	CodeNotFound            Code = "not_found"            // an unknown command, snapshot or route
	CodeUnknownTenant       Code = "unknown_tenant"       // there is no such tenant, or it was forgotten: only a write creates one; nothing was done
	CodeDeadlineExceeded    Code = "deadline_exceeded"    // the caller's deadline passed before the work began; nothing was done
	CodeCanceled            Code = "canceled"             // the caller gave up before the work began; nothing was done
	CodePanic               Code = "panic"                // application code panicked; its work was rolled back
	CodeCommandFailed       Code = "command_failed"       // application code returned an error; its work was rolled back
	CodeSQL                 Code = "sql"                  // the database refused a statement (syntax, constraint, …)
	CodeStorage             Code = "storage"              // the local disk failed or is full; the work was rolled back
	CodeUnsavedLimit        Code = "unsaved_limit"        // too much of what was acknowledged is in no copy; nothing was done, and writes go on when one was made
	CodeUnauthorized        Code = "unauthorized"         // the request carries no valid credentials
	CodeInternal            Code = "internal"             // a bug in Leasehold; the log has the stack
)

// Reasons of CodeFenced.
const (
	ReasonExpiredLocally = "lease-expired-locally" // the holder's own window ran out; a renewal at the same epoch resumes it
	ReasonLeaseLost      = "lease-lost"            // the store refused a renewal; final
	ReasonReleased       = "lease-released"        // the holder released, or began to forget; final
	ReasonSlotTaken      = "slot-taken"            // somebody else's bytes are in a lineage slot of this epoch; final
	ReasonNotPinned      = "base-not-pinned"       // nothing is served before the base of the epoch is pinned
)

// Sentinels for errors.Is. A wrapped *Error matches the sentinel of its Code and of its Cause.
var (
	ErrInvalidID           = &Error{Code: CodeInvalidID}
	ErrInvalidArgument     = &Error{Code: CodeInvalidArgument}
	ErrOutOfRange          = &Error{Code: CodeOutOfRange}
	ErrHeld                = &Error{Code: CodeHeld}
	ErrLost                = &Error{Code: CodeLost}
	ErrUnavailable         = &Error{Code: CodeUnavailable}
	ErrFenced              = &Error{Code: CodeFenced}
	ErrUnknownOutcome      = &Error{Code: CodeUnknownOutcome}
	ErrDraining            = &Error{Code: CodeDraining}
	ErrOverloaded          = &Error{Code: CodeOverloaded}
	ErrClosed              = &Error{Code: CodeClosed}
	ErrNotOwner            = &Error{Code: CodeNotOwner}
	ErrIncapable           = &Error{Code: CodeIncapable}
	ErrHistoryLost         = &Error{Code: CodeHistoryLost}
	ErrCorrupt             = &Error{Code: CodeCorrupt}
	ErrLineageAhead        = &Error{Code: CodeLineageAhead}
	ErrLineageMissing      = &Error{Code: CodeLineageMissing}
	ErrDeploymentMismatch  = &Error{Code: CodeDeploymentMismatch}
	ErrIdempotencyConflict = &Error{Code: CodeIdempotencyConflict}
	ErrReadOnly            = &Error{Code: CodeReadOnly}
	ErrTooLarge            = &Error{Code: CodeTooLarge}
	ErrNotFound            = &Error{Code: CodeNotFound}
	ErrUnknownTenant       = &Error{Code: CodeUnknownTenant}
	ErrDeadlineExceeded    = &Error{Code: CodeDeadlineExceeded}
	ErrCanceled            = &Error{Code: CodeCanceled}
	ErrPanic               = &Error{Code: CodePanic}
	ErrCommandFailed       = &Error{Code: CodeCommandFailed}
	ErrSQL                 = &Error{Code: CodeSQL}
	ErrStorage             = &Error{Code: CodeStorage}
	ErrUnsavedLimit        = &Error{Code: CodeUnsavedLimit}
	ErrUnauthorized        = &Error{Code: CodeUnauthorized}
	ErrInternal            = &Error{Code: CodeInternal}
)

// Error is the one error type of Leasehold. It survives the wire: what MarshalJSON writes,
// UnmarshalJSON reads, and errors.Is against the sentinels gives the same answers on both sides.
// Only the wrapped Err stays at home.
type Error struct {
	Code Code `json:"code"`
	// Message is for people. It never holds personal data, payloads, idempotency keys or SQL.
	Message string `json:"message,omitempty"`
	// Reason refines CodeFenced: one of the Reason constants.
	Reason string `json:"reason,omitempty"`
	// Cause is a second code that errors.Is matches too: an unknown outcome whose Cause is
	// CodeFenced is also a fenced error.
	Cause Code `json:"cause,omitempty"`
	// Key is "<org>/<tenant>" where the failure concerns one tenant.
	Key string `json:"key,omitempty"`
	// Owner and Epoch name the current holder with CodeHeld, CodeLost and CodeNotOwner (there also who
	// should become it), the next owner with CodeDraining, and the epoch that was fenced with CodeFenced.
	Owner string `json:"owner,omitempty"`
	Epoch uint64 `json:"epoch,omitempty"`
	// Lease is the current record with CodeHeld.
	Lease *Lease `json:"lease,omitempty"`
	// Needs is, with CodeIncapable, the version of its newest migration that an application must have; 0: that is not why.
	Needs int `json:"needs,omitempty"`
	// Object names the durable object, or the file, that is at fault.
	Object string `json:"object,omitempty"`
	// Application is what application code returned, with CodeCommandFailed. errors.As finds it, on both sides of the wire.
	Application *ApplicationError `json:"application,omitempty"`
	// RetryAfter is when trying again may help; 0: unknown. On the wire it is in milliseconds.
	RetryAfter time.Duration `json:"-"`
	// Err is the underlying error, for errors.Unwrap. It does not travel.
	Err error `json:"-"`
}

// Error returns the code, the details and the message in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	if e.Cause != "" {
		fmt.Fprintf(&b, " (%s)", e.Cause)
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, " [%s]", e.Reason)
	}
	if e.Key != "" {
		b.WriteString(" " + e.Key)
	}
	if e.Owner != "" {
		fmt.Fprintf(&b, " owner=%s", e.Owner)
	}
	if e.Epoch != 0 {
		fmt.Fprintf(&b, " epoch=%d", e.Epoch)
	}
	if e.Object != "" {
		fmt.Fprintf(&b, " object=%s", e.Object)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error with the same Code as e, or whose Code is e's Cause.
// A Reason in target must match too, so that a caller can ask for one reason.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	if !ok {
		switch target {
		case context.DeadlineExceeded:
			return e.Code == CodeDeadlineExceeded || e.Cause == CodeDeadlineExceeded
		case context.Canceled:
			return e.Code == CodeCanceled || e.Cause == CodeCanceled
		}
		return false
	}
	if t.Reason != "" && t.Reason != e.Reason {
		return false
	}
	return t.Code == e.Code || (t.Code != "" && t.Code == e.Cause)
}

type wireError struct {
	plainError
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
}

type plainError Error

// MarshalJSON writes the error in its one shape: {code, message, …}. A wrapped Err is folded into
// no field: it may hold what must not travel.
func (e *Error) MarshalJSON() ([]byte, error) {
	w := wireError{plainError: plainError(*e), RetryAfterMS: e.RetryAfter.Milliseconds()}
	if e.RetryAfter > 0 && w.RetryAfterMS == 0 {
		w.RetryAfterMS = 1
	}
	return EncodeWire(w)
}

// UnmarshalJSON reads what MarshalJSON wrote. It never panics; a document without a code is an error.
func (e *Error) UnmarshalJSON(data []byte) error {
	var w wireError
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("decode error document: %w", err)
	}
	if w.Code == "" {
		return errors.New("decode error document: no code")
	}
	*e = Error(w.plainError)
	if e.Application != nil {
		e.Err = e.Application
	}
	e.RetryAfter = time.Duration(w.RetryAfterMS) * time.Millisecond
	return nil
}

// Fenced returns an error with CodeFenced for a key at an epoch, for one of the Reason constants.
func Fenced(key Key, epoch uint64, reason string) *Error {
	return &Error{Code: CodeFenced, Reason: reason, Key: key.String(), Epoch: epoch, Message: "the lease is not provably held"}
}

// Unknown returns an error with CodeUnknownOutcome whose Cause and Reason are those of why.
func Unknown(key Key, epoch uint64, why error) *Error {
	w := AsError(why)
	return &Error{Code: CodeUnknownOutcome, Cause: w.Code, Reason: w.Reason, Key: key.String(), Epoch: epoch,
		Message: "the work may or may not stand; retry with its idempotency key", Err: why}
}

// UnknownTenant returns an error with CodeUnknownTenant for a key.
func UnknownTenant(key Key) *Error {
	return &Error{Code: CodeUnknownTenant, Key: key.String(), Message: "there is no such tenant, or it was forgotten; a write creates it"}
}

// AsError returns err as an *Error. What is not one becomes CodeDeadlineExceeded or CodeCanceled for
// the errors of a context, and CodeInternal for everything else. It returns nil for nil.
func AsError(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: CodeDeadlineExceeded, Message: "the deadline passed", Err: err}
	case errors.Is(err, context.Canceled):
		return &Error{Code: CodeCanceled, Message: "the caller gave up", Err: err}
	}
	return &Error{Code: CodeInternal, Message: "unexpected failure", Err: err}
}

// CodeOf returns the code of err, CodeInternal for an error without one, and "" for nil.
func CodeOf(err error) Code {
	if e := AsError(err); e != nil {
		return e.Code
	}
	return ""
}
