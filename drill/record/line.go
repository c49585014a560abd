package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Kind says what a line reports.
type Kind string

// The kinds of lines.
const (
	Started   Kind = "started"   // a replica runs: Owner, PID
	Stopped   Kind = "stopped"   // it ended by itself; Code of what failed
	Intent    Kind = "intent"    // a write is about to be sent: Write, Idem, Attempt
	Ack       Kind = "ack"       // it was acknowledged: Epoch, Seq, Duplicate; Since is when it was sent
	Refused   Kind = "refused"   // it, or an open, was refused: Code, Cause, Reason, Untyped; Since is when it was sent
	Lifecycle Kind = "lifecycle" // the node said so: Life
	PutBegun  Kind = "put-begun" // an upload was sent: Object
	PutEnded  Kind = "put-ended" // it was answered: Object, Created, Code; Manifest or Base if it is one
	Deleted   Kind = "deleted"   // an object was deleted: Object
	LeaseCall Kind = "lease"     // a call of the lease store that was answered: Op, Epoch, Code; Since is when it was sent
	Obeyed    Kind = "obeyed"    // a command of the drill took effect: Op
	Action    Kind = "drill"     // the drill did something: Op, Target, PID
	TookOver  Kind = "takeover"  // the verifier opened a tenant, or could not: Epoch, From, Code, Object
	Row       Kind = "row"       // one row that the verifier found: Seq, Write, Idem, Tenant
)

// Line is one event of a run. Which fields are set depends on Kind.
type Line struct {
	Kind Kind      `json:"k"`
	At   int64     `json:"at"`   // monotonic, ns
	Wall time.Time `json:"wall"` // UTC
	// Proc is the process: a node's name and the number of its start ("r2.3"), "drill" or "verifier".
	Proc  string `json:"p"`
	Key   string `json:"key,omitempty"` // of the tenant
	Owner string `json:"owner,omitempty"`
	PID   int    `json:"pid,omitempty"`

	Write     string        `json:"w,omitempty"`       // names one write in the whole run
	Idem      string        `json:"idem,omitempty"`    // its idempotency key
	Attempt   int           `json:"attempt,omitempty"` // of a retry, from 1
	Epoch     uint64        `json:"e,omitempty"`
	Seq       int64         `json:"seq,omitempty"`
	Duplicate bool          `json:"dup,omitempty"`
	Since     int64         `json:"since,omitempty"` // monotonic, ns
	Code      messages.Code `json:"code,omitempty"`
	Cause     messages.Code `json:"cause,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Untyped   bool          `json:"untyped,omitempty"` // the error was no *messages.Error

	Op      string `json:"op,omitempty"`
	Target  string `json:"target,omitempty"` // of an Action: a process
	Object  string `json:"object,omitempty"`
	Created bool   `json:"created,omitempty"`
	Tenant  string `json:"tenant,omitempty"` // the tenant column of a Row
	Text    string `json:"text,omitempty"`   // for people
	Hits    *Hits  `json:"hits,omitempty"`   // of an Action upon connections, at its end

	From     *messages.Position  `json:"from,omitempty"`
	Life     *messages.Lifecycle `json:"life,omitempty"`
	Manifest *messages.Manifest  `json:"manifest,omitempty"`
	Base     *messages.Base      `json:"base,omitempty"`
}

// Hits counts what an Action upon connections has hit.
type Hits struct {
	Connections int   `json:"connections"` // cut, refused or reset
	Answers     int   `json:"answers"`     // of a server that were swallowed, lost or held up
	Bytes       int64 `json:"bytes"`       // of those answers, or cut off by a reset
}

// Encode returns the line with its line feed.
func (l Line) Encode() ([]byte, error) {
	data, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encode a line of kind %q: %w", l.Kind, err)
	}
	return append(data, '\n'), nil
}

// Decode reads one line, without its line feed. It never panics; a line that is no JSON object, names
// no kind, process or time, or holds a field that no version writes, is an error.
func Decode(data []byte) (Line, error) {
	var l Line
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return Line{}, fmt.Errorf("decode a line: %w", err)
	}
	switch {
	case d.More():
		return Line{}, errors.New("decode a line: more than one object")
	case l.Kind == "" || l.Proc == "" || l.At <= 0:
		return Line{}, errors.New("decode a line: no kind, process or time")
	}
	return l, nil
}
