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
	messages.CodeInvalidID:        http.StatusBadRequest,
	messages.CodeInvalidArgument:  http.StatusBadRequest,
	messages.CodeOutOfRange:       http.StatusBadRequest,
	messages.CodeReadOnly:         http.StatusBadRequest,
	messages.CodeSQL:              http.StatusBadRequest,
	messages.CodeUnauthorized:     http.StatusUnauthorized,
	messages.CodeNotFound:         http.StatusNotFound,
	messages.CodeDeadlineExceeded: http.StatusRequestTimeout,
	messages.CodeHeld:             http.StatusConflict,
	messages.CodeLost:             http.StatusConflict,
	messages.CodeFenced:           http.StatusConflict,
	messages.CodeHistoryLost:      http.StatusConflict,
	messages.CodeTooLarge:         http.StatusRequestEntityTooLarge,
	messages.CodeNotOwner:         http.StatusMisdirectedRequest,
	messages.CodeCommandFailed:    http.StatusUnprocessableEntity,
	messages.CodeOverloaded:       http.StatusTooManyRequests,
	messages.CodeCanceled:         StatusClientClosed,
	messages.CodeInternal:         http.StatusInternalServerError,
	messages.CodePanic:            http.StatusInternalServerError,
	messages.CodeCorrupt:          http.StatusInternalServerError,
	messages.CodeLineageAhead:     http.StatusInternalServerError,
	messages.CodeUnavailable:      http.StatusServiceUnavailable,
	messages.CodeDraining:         http.StatusServiceUnavailable,
	messages.CodeClosed:           http.StatusServiceUnavailable,
	messages.CodeUnknownOutcome:   http.StatusGatewayTimeout,
	messages.CodeStorage:          http.StatusInsufficientStorage,
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

// retryAfter writes a duration in the whole seconds that HTTP knows, rounded up; the body has the
// milliseconds.
func retryAfter(d time.Duration) string {
	if d <= 0 {
		d = defaultRetryAfter
	}
	return strconv.Itoa(int(math.Ceil(d.Seconds())))
}

// reply answers a request with a JSON document.
func reply(w http.ResponseWriter, status int, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		status = http.StatusInternalServerError
		body, _ = json.Marshal(&messages.Error{Code: messages.CodeInternal, Message: "the answer cannot be written as JSON"})
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // nobody is left to be told that the client is gone
}
