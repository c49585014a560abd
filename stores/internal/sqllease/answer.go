package sqllease

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// The verdicts of the functions in the database.
const (
	granted = "granted"
	isHeld  = "held"
)

// refusals are the verdicts that are CodeLost, and what they say.
var refusals = map[string]string{
	"unknown": stores.NeverGranted,
	"epoch":   stores.OtherEpoch,
	"owner":   stores.OtherOwner,
	"over":    stores.LeaseOver,
}

type scanner interface{ Scan(dest ...any) error }

// record is a row of the leases, with its times in ms since 1970.
type record struct {
	Owner   string
	Epoch   uint64
	TTLMS   int64
	EndMS   int64
	Floor   uint64
	Lineage uint64
}

func (r *record) dest() []any {
	return []any{&r.Owner, &r.Epoch, &r.TTLMS, &r.EndMS, &r.Floor, &r.Lineage}
}

func (r *record) lease(key messages.Key) messages.Lease {
	return messages.Lease{Key: key, Owner: r.Owner, Epoch: r.Epoch, Floor: r.Floor, Lineage: r.Lineage,
		TTL: time.Duration(r.TTLMS) * time.Millisecond, End: time.UnixMilli(r.EndMS).UTC()}
}

// answer is the verdict on one key at one instant of the database's clock, and the record after it.
type answer struct {
	Verdict string
	NowMS   int64
	record
}

// UnmarshalJSON reads the array [verdict, now_ms, owner, epoch, ttl_ms, end_ms, floor, lineage].
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
	if a.Verdict == isHeld {
		return messages.Lease{}, stores.Held(lease, time.Duration(a.EndMS-a.NowMS)*time.Millisecond)
	}
	why, ok := refusals[a.Verdict]
	if !ok { // a schema that this program does not know: no definite answer
		return messages.Lease{}, &messages.Error{Code: messages.CodeUnavailable, Key: key.String(), Message: "the lease store gave an unknown verdict"}
	}
	return messages.Lease{}, stores.Lost(key, lease, why)
}
