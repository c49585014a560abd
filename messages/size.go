package messages

import (
	"fmt"
	"unicode/utf8"
)

// A request is one message between nodes and clients, and so is its answer (docs/decisions/0028). What a request
// carries has one limit, wherever it is asked and whether it travels or not: that which always fits into a message.
const (
	// MaxMessageBytes is the largest message that the servers between nodes must take (max_payload of NATS).
	MaxMessageBytes = 8 << 20
	// MaxRequestBytes is how much a request may carry by Request.Size: events, input, statement and arguments. What is left
	// of a message is for the rest of the request.
	MaxRequestBytes = MaxMessageBytes - 64<<10
)

// eventFrame is what an event needs in JSON beside its values: the names of its fields, and a time.
const eventFrame = 160

// Size returns how many bytes the event has in a message, at most.
func (e *Event) Size() int {
	return eventFrame + quoted(e.Kind) + quoted(e.Actor) + quoted(e.SubjectID) + quoted(e.RunID) + quoted(e.IdemKey) + len(e.Payload)
}

// Size returns how many bytes what the request carries has in a message, at most.
func (r *Request) Size() int {
	n := quoted(r.Command) + quoted(r.IdemKey) + quoted(r.SQL) + len(r.Input)
	for i := range r.Events {
		n += r.Events[i].Size()
	}
	for _, arg := range r.Args {
		n += len(arg) + len(",")
	}
	for _, owner := range r.Avoid {
		n += quoted(owner) + len(",")
	}
	return n
}

// fits returns CodeTooLarge for a request that carries too much.
func (r *Request) fits() error {
	if n := r.Size(); n > MaxRequestBytes {
		return &Error{Code: CodeTooLarge, Key: r.Key.String(), Message: fmt.Sprintf("the request carries %d bytes, at most %d are allowed", n, MaxRequestBytes)}
	}
	return nil
}

// quoted returns how many bytes EncodeWire makes of a string, at most; an empty one is left out.
func quoted(s string) int {
	if s == "" {
		return 0
	}
	n := len(`""`)
	for _, r := range s {
		switch {
		case r < ' ', r == '\u2028', r == '\u2029', r == utf8.RuneError:
			n += len(`\u0000`)
		case r == '"', r == '\\':
			n += len(`\"`)
		default:
			n += utf8.RuneLen(r)
		}
	}
	return n
}
