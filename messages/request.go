package messages

import (
	"encoding/json"
	"math"
	"time"
	"unicode/utf8"
)

// WireVersion is the version of Request and Reply. A node refuses a request of another one.
const WireVersion = 1

// maxAvoid bounds Request.Avoid: every name is compared with every member.
const maxAvoid = 64

// Action names what a Request asks for.
type Action string

// The actions. Handoffs and abandons of a tenant that is not open are refused with CodeNotOwner: it would
// be opened only to be closed. Every other action opens it. Of a tenant that there is not, all but appends and calls are
// refused with CodeUnknownTenant.
const (
	ActionAppend   Action = "append"
	ActionCall     Action = "call"
	ActionQuery    Action = "query"
	ActionEvents   Action = "events"
	ActionSnapshot Action = "snapshot"
	ActionHandoff  Action = "handoff"
	ActionAbandon  Action = "abandon"
	ActionForget   Action = "forget"
	// ActionLocate asks a member who should be sent the requests for a tenant: Reply.Owner. It touches nothing.
	ActionLocate Action = "locate"
)

// Seen is the state of a tenant that a caller has seen: the epoch, and the seq of the last event by then.
// The zero value has seen nothing.
type Seen struct {
	Epoch uint64 `json:"epoch"`
	Seq   int64  `json:"seq"`
}

// Before reports whether s is an older state than t.
func (s Seen) Before(t Seen) bool {
	return s.Epoch < t.Epoch || (s.Epoch == t.Epoch && s.Seq < t.Seq)
}

// MaxRequestIDBytes bounds Request.ID.
const MaxRequestIDBytes = 64

// Request is one request to a tenant, as it travels between clients and nodes.
type Request struct {
	Version int    `json:"v"`
	Action  Action `json:"action"`
	Key     Key    `json:"key"`
	// TimeoutMS is how much time the caller's deadline left when the request was sent, in ms. It is a
	// duration because the clocks of two machines differ.
	TimeoutMS int64 `json:"timeout_ms"`
	// ID names one wish of one caller; every copy of the request that is sent for it has the same. Copies that are with the
	// owner at the same time are carried out once and answered alike, and a later one is told of no duplicate, if the owner
	// remembers the first. "": every copy is a wish of its own.
	ID string `json:"id,omitempty"`
	// Seen is what the caller has seen. No older state answers, and nothing is done on one.
	Seen Seen `json:"seen,omitzero"`
	// Avoid names the owners (node incarnations) that did not answer this caller a moment ago.
	Avoid []string `json:"avoid,omitempty"`

	Events  []Event           `json:"events,omitempty"`   // ActionAppend
	Command string            `json:"command,omitempty"`  // ActionCall
	IdemKey string            `json:"idem_key,omitempty"` // ActionCall: the command runs once for this key
	Input   json.RawMessage   `json:"input,omitempty"`    // ActionCall
	SQL     string            `json:"sql,omitempty"`      // ActionQuery
	Args    []json.RawMessage `json:"args,omitempty"`     // ActionQuery; see EncodeValue
	After   int64             `json:"after,omitempty"`    // ActionEvents: only later ones
	Limit   int               `json:"limit,omitempty"`    // ActionEvents: at most so many; 0: the node's limit
}

// Repeatable reports whether the request may be sent again after a failure that leaves open whether it
// was carried out: a read, a snapshot, a command with an idempotency key, or an append of which every event has
// one.
func (r *Request) Repeatable() bool {
	switch r.Action {
	case ActionQuery, ActionEvents, ActionSnapshot, ActionLocate:
		return true
	case ActionCall:
		return r.IdemKey != ""
	case ActionAppend:
		for _, e := range r.Events {
			if e.IdemKey == "" {
				return false
			}
		}
		return true
	}
	return false
}

// Opens reports whether the request opens a tenant that is not open.
func (r *Request) Opens() bool {
	switch r.Action {
	case ActionHandoff, ActionAbandon:
		return false
	}
	return true
}

// Creates reports whether the request creates a tenant that there is not: reading, and what ends a tenant, creates
// nothing.
func (r *Request) Creates() bool { return r.Action == ActionAppend || r.Action == ActionCall }

// Timeout is TimeoutMS as a duration; what does not fit into one is the longest that there is.
func (r *Request) Timeout() time.Duration {
	return time.Duration(min(r.TimeoutMS, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// Validate returns a typed error for a request that no node would carry out: CodeInvalidID,
// CodeInvalidArgument or CodeTooLarge.
func (r *Request) Validate() error {
	if r.Version != WireVersion {
		return &Error{Code: CodeInvalidArgument, Message: "the request has another version of the protocol than this node"}
	}
	if err := r.Key.Validate(); err != nil {
		return err
	}
	invalid := func(why string) error {
		return &Error{Code: CodeInvalidArgument, Key: r.Key.String(), Message: why}
	}
	if len(r.Avoid) > maxAvoid {
		return invalid("the request avoids too many owners")
	}
	if len(r.ID) > MaxRequestIDBytes {
		return invalid("the id of the request is too long")
	}
	if !utf8.ValidString(r.ID) {
		return invalid("the id of the request is not valid UTF-8")
	}
	if err := r.fits(); err != nil {
		return err
	}
	switch r.Action {
	case ActionAppend:
		switch {
		case len(r.Events) == 0:
			return invalid("there are no events to append")
		case len(r.Events) > MaxBatchEvents:
			return &Error{Code: CodeTooLarge, Key: r.Key.String(), Message: "too many events in one append"}
		}
		for _, e := range r.Events {
			if err := e.Validate(); err != nil {
				return err
			}
		}
	case ActionCall:
		if r.Command == "" {
			return invalid("the request names no command")
		}
		if err := validateName("the name of the command", r.Command); err != nil {
			return err
		}
		if err := ValidateIdemKey(r.IdemKey); err != nil {
			return err
		}
		if len(r.Input) > 0 {
			return ValidateJSON("input", r.Input)
		}
	case ActionQuery:
		if r.SQL == "" {
			return invalid("sql is empty")
		}
		if !utf8.ValidString(r.SQL) {
			return invalid("sql is not valid UTF-8")
		}
	case ActionEvents:
		if r.After < 0 || r.Limit < 0 {
			return invalid("after and limit must not be negative")
		}
	case ActionSnapshot, ActionHandoff, ActionAbandon, ActionForget, ActionLocate:
	default:
		return invalid("unknown action")
	}
	return nil
}

// Reply answers a Request. Owner, Epoch and Seq name the state that it comes from: the fencing token,
// and the last event by then. They are there with an Error too, where it came from an open tenant.
type Reply struct {
	Owner string `json:"owner,omitempty"`
	Epoch uint64 `json:"epoch,omitempty"`
	Seq   int64  `json:"seq,omitempty"`
	Error *Error `json:"error,omitempty"`

	Appended  []Appended      `json:"appended,omitempty"`  // ActionAppend, in the order of the request
	Output    json.RawMessage `json:"output,omitempty"`    // ActionCall
	Duplicate bool            `json:"duplicate,omitempty"` // ActionCall: the idempotency key was there already
	Result    *Result         `json:"result,omitempty"`    // ActionQuery
	Events    []StoredEvent   `json:"events,omitempty"`    // ActionEvents
	More      bool            `json:"more,omitempty"`      // ActionEvents: there are more
	Manifest  *Manifest       `json:"manifest,omitempty"`  // ActionSnapshot
}

// Seen is the state that the reply comes from.
func (r *Reply) Seen() Seen { return Seen{Epoch: r.Epoch, Seq: r.Seq} }

// Refuse returns a Reply that is an error.
func Refuse(err error) *Reply { return &Reply{Error: AsError(err)} }
