package sqllease

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// The verdicts of the functions in the database.
const (
	granted = "granted"
	isHeld  = "held"
)

// refusals are the verdicts that are CodeLost, and what they say.
var refusals = map[string]string{
	"unknown": "the lease was never granted",
	"epoch":   "the lease is at another epoch",
	"owner":   "the lease has another owner",
	"over":    "the lease is over",
}

type scanner interface{ Scan(dest ...any) error }

// record is a row of the leases, with its times in ms since 1970.
type record struct {
	Owner string
	Epoch uint64
	TTLMS int64
	EndMS int64
	Floor uint64
}

func (r *record) dest() []any { return []any{&r.Owner, &r.Epoch, &r.TTLMS, &r.EndMS, &r.Floor} }

func (r *record) lease(key messages.Key) messages.Lease {
	return messages.Lease{Key: key, Owner: r.Owner, Epoch: r.Epoch, Floor: r.Floor,
		TTL: time.Duration(r.TTLMS) * time.Millisecond, End: time.UnixMilli(r.EndMS).UTC()}
}

// answer is the verdict on one key at one instant of the database's clock, and the record after it.
type answer struct {
	Verdict string
	NowMS   int64
	record
}

// UnmarshalJSON reads the array [verdict, now_ms, owner, epoch, ttl_ms, end_ms, floor].
func (a *answer) UnmarshalJSON(data []byte) error {
	fields := append([]any{&a.Verdict, &a.NowMS}, a.dest()...)
	want := len(fields)
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	if len(fields) != want {
		return fmt.Errorf("an answer has %d fields, not %d", len(fields), want)
	}
	return nil
}

// settle turns a verdict into what a LeaseStore returns.
func (a *answer) settle(key messages.Key) (messages.Lease, error) {
	lease := a.lease(key)
	if a.Verdict == granted {
		return lease, nil
	}
	refused := &messages.Error{Key: key.String(), Owner: lease.Owner, Epoch: lease.Epoch}
	if a.Verdict == isHeld {
		refused.Code, refused.Message, refused.Lease = messages.CodeHeld, "the lease is held", &lease
		refused.RetryAfter = time.Duration(a.EndMS-a.NowMS) * time.Millisecond
		return messages.Lease{}, refused
	}
	why, ok := refusals[a.Verdict]
	if !ok { // a schema that this program does not know: no definite answer
		return messages.Lease{}, &messages.Error{Code: messages.CodeUnavailable, Key: key.String(), Message: "the lease store gave an unknown verdict"}
	}
	refused.Code, refused.Message = messages.CodeLost, why
	return messages.Lease{}, refused
}
