package messages

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Limits of an ApplicationError. Bytes.
const (
	MaxApplicationCodeBytes    = 64
	MaxApplicationMessageBytes = 1 << 10
	MaxApplicationDetailsBytes = 64 << 10
)

// ApplicationError is an error of application code that is meant for its caller: a command that returns one, wrapped or not, has it
// travel as it is, in an Error with CodeCommandFailed, over HTTP and NATS. All of it reaches the caller, and none of it a log.
type ApplicationError struct {
	// Code is for programs: 1 to MaxApplicationCodeBytes of a-z, 0-9, '_', '-' and '.'. Its meaning is the application's.
	Code string `json:"code"`
	// Message is for people, at most MaxApplicationMessageBytes.
	Message string `json:"message,omitempty"`
	// Details is a JSON document, or empty; at most MaxApplicationDetailsBytes.
	Details json.RawMessage `json:"details,omitempty"`
}

// Error returns the code and the message.
func (e *ApplicationError) Error() string {
	if e.Message == "" {
		return e.Code
	}
	return e.Code + ": " + e.Message
}

// Validate returns CodeInvalidArgument or CodeTooLarge for an error that cannot travel.
func (e *ApplicationError) Validate() error {
	invalid := func(why string) error {
		return &Error{Code: CodeInvalidArgument, Message: "an application error " + why}
	}
	if e.Code == "" {
		return invalid("has no code")
	}
	for _, c := range []byte(e.Code) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return invalid("has a code with other characters than a-z, 0-9, _, - and .")
		}
	}
	for _, f := range []struct {
		name      string
		size, max int
	}{
		{"code", len(e.Code), MaxApplicationCodeBytes}, {"message", len(e.Message), MaxApplicationMessageBytes}, {"details", len(e.Details), MaxApplicationDetailsBytes},
	} {
		if f.size > f.max {
			return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the %s of an application error has %d bytes, at most %d are allowed", f.name, f.size, f.max)}
		}
	}
	if !utf8.ValidString(e.Message) {
		return invalid("has a message that is not valid UTF-8")
	}
	if len(e.Details) == 0 {
		return nil
	}
	return ValidateJSON("details", e.Details)
}
