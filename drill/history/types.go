package history

import (
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Outcome is what a client was told.
type Outcome string

// The outcomes. Pending and Unknown both mean that the work may or may not stand.
const (
	Pending Outcome = ""        // no answer was recorded: the client or the node died first
	Acked   Outcome = "acked"   // the caller was told "done"
	Refused Outcome = "refused" // a definite error: nothing was done, and nothing will be
	Unknown Outcome = "unknown" // messages.CodeUnknownOutcome, or a connection that broke
)

// OutcomeOf returns the outcome that the answer of a node to a write stands for: any error but
// CodeUnknownOutcome is definite. A client whose connection broke records Unknown itself.
func OutcomeOf(err error) Outcome {
	switch messages.CodeOf(err) {
	case "":
		return Acked
	case messages.CodeUnknownOutcome:
		return Unknown
	}
	return Refused
}

// Write is one request to append one event. The recorder adds it before it sends the request (an
// intent), and completes it when the answer comes.
type Write struct {
	Key messages.Key `json:"key"`
	// ID is the SubjectID of the event; retries with one idempotency key share it.
	ID      string `json:"id"`
	IdemKey string `json:"idem_key,omitempty"`
	// Group names what stands or falls together: the events of one append, or of one transaction. "": it is alone.
	Group string `json:"group,omitempty"`
	// Attempt tells the requests for one ID apart, from 0.
	Attempt int `json:"attempt,omitempty"`
	// Owner is the incarnation of the node that was asked.
	Owner string `json:"owner"`
	// Epoch is the epoch at which it was answered; 0: not known, and then worked out from the
	// lifecycle events of Owner where these leave no doubt.
	Epoch    uint64        `json:"epoch,omitempty"`
	Sent     time.Time     `json:"sent"`
	Answered time.Time     `json:"answered,omitzero"`
	Outcome  Outcome       `json:"outcome,omitempty"`
	Code     messages.Code `json:"code,omitempty"`
	Cause    messages.Code `json:"cause,omitempty"`  // of messages.CodeUnknownOutcome
	Reason   string        `json:"reason,omitempty"` // of messages.CodeFenced
	Seq      int64         `json:"seq,omitempty"`    // with Acked
	// Duplicate says that the answer was a first one's seq.
	Duplicate bool `json:"duplicate,omitempty"`
	// SawFence is when the transaction itself was told "fenced" before its end; zero: it was not.
	// Unless a renewal came in between it must not be committed, and the fence is no reason for an
	// unknown outcome (G2).
	SawFence time.Time `json:"saw_fence,omitzero"`
}

// Read is an answered read of events.
type Read struct {
	Key      messages.Key `json:"key"`
	Owner    string       `json:"owner"`
	Epoch    uint64       `json:"epoch,omitempty"` // as in Write
	Sent     time.Time    `json:"sent"`
	Answered time.Time    `json:"answered"`
	After    int64        `json:"after"` // the rows are those with a higher seq
	Rows     []Row        `json:"rows"`
	More     bool         `json:"more,omitempty"` // there were more rows than these
}

// Reply is what a client was told about the state that an answer comes from.
type Reply struct {
	Key      messages.Key    `json:"key"`
	Action   messages.Action `json:"action"`
	Owner    string          `json:"owner"`
	Sent     time.Time       `json:"sent"`
	Answered time.Time       `json:"answered"`
	Seen     messages.Seen   `json:"seen,omitzero"`  // what the client had seen when it asked
	State    messages.Seen   `json:"state,omitzero"` // of the answer
	Code     messages.Code   `json:"code,omitempty"` // "": done
}

// Order is an answered handoff, abandon, forget or snapshot.
type Order struct {
	Key      messages.Key  `json:"key"`
	Name     string        `json:"name"` // one of the Order constants
	Owner    string        `json:"owner"`
	Sent     time.Time     `json:"sent"`
	Answered time.Time     `json:"answered,omitzero"`
	Code     messages.Code `json:"code,omitempty"` // "": done
	// Manifest is the answer of a snapshot.
	Manifest messages.Manifest `json:"manifest,omitzero"`
}

// The names of orders.
const (
	OrderSnapshot = "snapshot"
	OrderHandoff  = "handoff"
	OrderAbandon  = "abandon"
	OrderForget   = "forget"
)

// Row is one row of the events table.
type Row struct {
	Seq     int64             `json:"seq"`
	Tenant  messages.TenantID `json:"tenant"`
	ID      string            `json:"id"` // subject_id
	IdemKey string            `json:"idem_key,omitempty"`
}

// Rows returns the rows of events that a node of the tenant has answered.
func Rows(tenant messages.TenantID, events []messages.StoredEvent) []Row {
	rows := make([]Row, len(events))
	for i, e := range events {
		rows[i] = Row{Seq: e.Seq, Tenant: tenant, ID: e.SubjectID, IdemKey: e.IdemKey}
	}
	return rows
}

// Object is one object that is, or was, in the durable store.
type Object struct {
	Data []byte `json:"data"`
	// By is the owner id of the node that put it; "": not known.
	By string `json:"by,omitempty"`
	// At is when it landed; zero: not known.
	At time.Time `json:"at,omitzero"`
}

// State is what a fresh owner served when everything was over.
type State struct {
	Epoch uint64 `json:"epoch"`
	Rows  []Row  `json:"rows"`
}

// History is everything that was recorded. All times are of one clock: that of the observer. Fields
// that a recorder cannot fill stay empty, and then the rules that need them are not judged.
type History struct {
	Writes    []Write
	Reads     []Read
	Replies   []Reply
	Orders    []Order
	Lifecycle []messages.Lifecycle
	// Trails are the audit trails of the lease store, by key, with At on the observer's clock.
	Trails map[messages.Key][]messages.LeaseEntry
	// Slack is how much two times may be off against each other before an order of them counts: 1 ms
	// for a lease store that keeps whole milliseconds.
	Slack time.Duration
	// Objects are the objects of the durable store by name: those that are there at the end, or, if
	// Archive is set, every object that ever landed, as it first did.
	Objects map[string]Object
	Archive bool
	// Left are the names that are in the durable store at the end; nil: the names of Objects.
	Left []string
	// Final is what a fresh owner served at the end, by key.
	Final map[messages.Key]State
	// Clockless holds owners whose clock was wrong by more than the margin, since when: the declared
	// limit D6. What they acknowledge from then on is not held against them by I3; that it never
	// enters a lineage, is.
	Clockless map[string]time.Time
	// Foreign reports whether an ID is that of an event which nobody recorded, such as those of an
	// application of its own: it is judged by its place and its tenant alone. nil: there are none.
	Foreign func(id string) bool
	// Excused holds snapshots that the environment destroyed, and not the protocol: an image that
	// rotted, a snapshot that an operator removed.
	Excused map[messages.Key]map[messages.Position]bool
}

// Violation is one broken rule.
type Violation struct {
	Rule  string       `json:"rule"` // "I3", "S6", … as in the contract
	Key   messages.Key `json:"key"`
	Epoch uint64       `json:"epoch,omitempty"`
	Text  string       `json:"text"`
}

// String returns the violation in one line.
func (v Violation) String() string {
	return v.Rule + " " + v.Key.String() + ": " + v.Text
}
