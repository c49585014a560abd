package api

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// statuses maps every code to its HTTP status.
var statuses = map[messages.Code]int{
	messages.CodeInvalidID:           http.StatusBadRequest,
	messages.CodeInvalidArgument:     http.StatusBadRequest,
	messages.CodeOutOfRange:          http.StatusBadRequest,
	messages.CodeReadOnly:            http.StatusBadRequest,
	messages.CodeSQL:                 http.StatusBadRequest,
	messages.CodeUnauthorized:        http.StatusUnauthorized,
	messages.CodeNotFound:            http.StatusNotFound,
	messages.CodeUnknownTenant:       http.StatusNotFound,
	messages.CodeDeadlineExceeded:    http.StatusRequestTimeout,
	messages.CodeHeld:                http.StatusConflict,
	messages.CodeLost:                http.StatusConflict,
	messages.CodeFenced:              http.StatusConflict,
	messages.CodeHistoryLost:         http.StatusConflict,
	messages.CodeIdempotencyConflict: http.StatusConflict,
	messages.CodeTooLarge:            http.StatusRequestEntityTooLarge,
	messages.CodeNotOwner:            http.StatusMisdirectedRequest,
	messages.CodeCommandFailed:       http.StatusUnprocessableEntity,
	messages.CodeOverloaded:          http.StatusTooManyRequests,
	messages.CodeCanceled:            StatusClientClosed,
	messages.CodeInternal:            http.StatusInternalServerError,
	messages.CodePanic:               http.StatusInternalServerError,
	messages.CodeCorrupt:             http.StatusInternalServerError,
	messages.CodeLineageAhead:        http.StatusInternalServerError,
	messages.CodeLineageMissing:      http.StatusServiceUnavailable,
	messages.CodeDeploymentMismatch:  http.StatusInternalServerError,
	messages.CodeIncapable:           http.StatusServiceUnavailable,
	messages.CodeUnavailable:         http.StatusServiceUnavailable,
	messages.CodeUnsavedLimit:        http.StatusServiceUnavailable,
	messages.CodeDraining:            http.StatusServiceUnavailable,
	messages.CodeClosed:              http.StatusServiceUnavailable,
	messages.CodeUnknownOutcome:      http.StatusGatewayTimeout,
	messages.CodeStorage:             http.StatusInsufficientStorage,
}

// StatusClientClosed is nginx's status for a client that went away before it was answered.
const StatusClientClosed = 499

// defaultRetryAfter is what a refused caller is told where nothing better is known.
const defaultRetryAfter = time.Second

// Status returns the HTTP status of a code; 500 for one that is not known.
func Status(code messages.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// refusal is an error whose status is not that of its code.
type refusal struct {
	err    *messages.Error
	status int
}

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

func invalid(message string) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: message}
}

// fail answers a request with an error.
func fail(w http.ResponseWriter, err error) {
	e := messages.AsError(err)
	status := Status(e.Code)
	if r, ok := err.(refusal); ok {
		status = r.status
	}
	header := w.Header()
	switch {
	case status == http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `Bearer realm="leasehold"`)
	case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
		header.Set("Retry-After", retryAfter(e.RetryAfter))
	}
	reply(w, status, e)
}

// Refuse answers a request of somebody who may not come in, with CodeUnauthorized.
func Refuse(w http.ResponseWriter, message string) {
	fail(w, &messages.Error{Code: messages.CodeUnauthorized, Message: message})
}

// retryAfter writes a duration in the whole seconds that HTTP knows, rounded up; the body has the
// milliseconds.
func retryAfter(d time.Duration) string {
	if d <= 0 {
		d = defaultRetryAfter
	}
	return strconv.Itoa(int(math.Ceil(d.Seconds())))
}

// smallAnswer is the size in bytes up to which an answer needs no room of its own: that a request was refused can be said always.
const smallAnswer = 64 << 10

// room takes the room for an answer until its reader has taken it: many that read slowly must not hold all of the memory.
func room(w http.ResponseWriter, bytes int, document any) error {
	answer, ok := w.(*recorder)
	if !ok || bytes <= smallAnswer {
		return nil
	}
	err := answer.take(bytes)
	if _, done := document.(commanded); err != nil && done {
		return &messages.Error{Code: messages.CodeUnknownOutcome, Cause: messages.CodeOverloaded, RetryAfter: defaultRetryAfter,
			Message: "the work stands, but there is no room for its answer now; repeat it with its idempotency key"}
	}
	return err
}

// reply answers a request with a JSON document.
func reply(w http.ResponseWriter, status int, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		status = http.StatusInternalServerError
		body, _ = json.Marshal(&messages.Error{Code: messages.CodeInternal, Message: "the answer cannot be written as JSON"})
	}
	if err := room(w, len(body)+1, document); err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // nobody is left to be told that the client is gone
}
