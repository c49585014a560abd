package messages

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of an event. Bytes.
const (
	MaxEventNameBytes = 256     // kind, actor, subject id, run id, idempotency key
	MaxPayloadBytes   = 1 << 20 // payload
	MaxPayloadDepth   = 100     // nesting of the payload's arrays and objects
	MaxBatchEvents    = 1000    // events in one append
)

// Event is what an application appends to a ledger.
type Event struct {
	// Kind names what happened ("trip.logged"). Required.
	Kind string `json:"kind"`
	// Actor is who did it, SubjectID what it is about, RunID the run it belongs to. Optional.
	Actor     string `json:"actor,omitempty"`
	SubjectID string `json:"subject_id,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	// IdemKey makes a retry safe: a second append with the same key returns the first one's seq.
	IdemKey string `json:"idem_key,omitempty"`
	// Payload is a JSON document; empty stands for {}.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Time is when it happened, in the years 0 to 9999; nil: when it is appended. A stored event has it always.
	Time *time.Time `json:"time,omitempty"`
}

// StoredEvent is an event with its place in the ledger.
type StoredEvent struct {
	Seq int64 `json:"seq"`
	Event
}

// Appended is the answer to one appended event.
type Appended struct {
	Seq int64 `json:"seq"`
	// Duplicate says that the idempotency key was there already, and Seq is the first one's.
	Duplicate bool `json:"duplicate,omitempty"`
}

// Validate returns an error with CodeInvalidArgument or CodeTooLarge unless the event can be stored.
func (e Event) Validate() error {
	if e.Kind == "" {
		return &Error{Code: CodeInvalidArgument, Message: "event has no kind"}
	}
	for _, f := range []struct{ name, value string }{
		{"kind", e.Kind}, {"actor", e.Actor}, {"subject_id", e.SubjectID}, {"run_id", e.RunID}, {"idem_key", e.IdemKey},
	} {
		if err := validateName(f.name, f.value); err != nil {
			return err
		}
	}
	return ValidatePayload(e.Payload)
}

// ValidateIdemKey returns CodeInvalidArgument or CodeTooLarge unless key can be an idempotency key, of an event or of a command. An empty
// one is none, and fine.
func ValidateIdemKey(key string) error { return validateName("idem_key", key) }

// validateName checks a text that JSON must not change on its way: encoding/json makes one character of all broken UTF-8.
func validateName(name, value string) error {
	switch {
	case len(value) > MaxEventNameBytes:
		return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("%s has %d bytes, at most %d are allowed", name, len(value), MaxEventNameBytes)}
	case !utf8.ValidString(value) || strings.IndexByte(value, 0) >= 0:
		return &Error{Code: CodeInvalidArgument, Message: name + " is not valid UTF-8 without NUL"}
	}
	return nil
}

// ValidatePayload returns an error with CodeInvalidArgument or CodeTooLarge unless p is empty or a
// JSON document of at most MaxPayloadBytes that ValidateJSON takes.
func ValidatePayload(p json.RawMessage) error {
	if len(p) == 0 {
		return nil
	}
	if len(p) > MaxPayloadBytes {
		return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("payload has %d bytes, at most %d are allowed", len(p), MaxPayloadBytes)}
	}
	return ValidateJSON("payload", p)
}

// ValidateJSON returns CodeInvalidArgument unless p is one JSON document of at most MaxPayloadDepth that CheckText takes. The error
// calls it by name.
func ValidateJSON(name string, p json.RawMessage) error {
	if !json.Valid(p) {
		return &Error{Code: CodeInvalidArgument, Message: name + " is not a JSON document"}
	}
	if fault := textFault(p, MaxPayloadDepth); fault != "" {
		return &Error{Code: CodeInvalidArgument, Message: name + " " + fault}
	}
	return nil
}
