package s3

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Formats of a record, in its field "v". Records of the first name no renewal logs; they are read, and not written any
// more. A program that knows it only refuses the newer, and so takes no lease whose renewals it does not see.
const (
	oldVersion = 1
	version    = 2
)

// record is the object of a lease key: the newest entries of its audit trail, of which the last IS the
// record, and the span.
type record struct {
	V   int    `json:"v"`
	Key string `json:"key"`
	// SpanMS is how long, from the sending of the request that wrote this version, the lease stands.
	SpanMS int64   `json:"span_ms"`
	Trail  []entry `json:"trail"`
}

// entry is one granted operation.
type entry struct {
	Seq   uint64 `json:"seq"`
	Op    string `json:"op"`
	Owner string `json:"owner"`
	Epoch uint64 `json:"epoch"`
	TTLMS int64  `json:"ttl_ms"`
	EndMS int64  `json:"end_ms"` // since 1970, like AtMS
	Floor uint64 `json:"floor"`
	AtMS  int64  `json:"at_ms"`
	// Lineage is messages.Lease.Lineage.
	Lineage uint64 `json:"lineage,omitempty"`
	// Nonce names the call that wrote the entry: how a call knows its own after a lost answer, and what makes
	// every version differ.
	Nonce string `json:"nonce"`
	// Log names the renewal log in which the lease is renewed from then on, until the next entry, as number Member;
	// "": none. Nothing of that member stands in a version of the log up to Since.
	Log    string `json:"log,omitempty"`
	Member int    `json:"member,omitempty"`
	Since  uint64 `json:"since,omitempty"`
}

func (r record) last() entry { return r.Trail[len(r.Trail)-1] }

func (r record) span() time.Duration { return time.Duration(r.SpanMS) * time.Millisecond }

// holds says whether the call named nonce wrote one of the entries.
func (r record) holds(nonce string) bool {
	for _, e := range r.Trail {
		if e.Nonce == nonce {
			return true
		}
	}
	return false
}

func (e entry) lease(key messages.Key) messages.Lease {
	return messages.Lease{Key: key, Owner: e.Owner, Epoch: e.Epoch, TTL: time.Duration(e.TTLMS) * time.Millisecond,
		End: time.UnixMilli(e.EndMS).UTC(), Floor: e.Floor, Lineage: e.Lineage}
}

func (e entry) public() messages.LeaseEntry {
	return messages.LeaseEntry{Seq: e.Seq, Op: e.Op, Owner: e.Owner, Epoch: e.Epoch, TTL: time.Duration(e.TTLMS) * time.Millisecond,
		End: time.UnixMilli(e.EndMS).UTC(), Floor: e.Floor, Lineage: e.Lineage, At: time.UnixMilli(e.AtMS).UTC()}
}

// follows says what rule an entry would break after the one before it (nil: it is the first). These are
// the rules that other bindings have as triggers.
func (e entry) follows(before *entry) error {
	var b entry
	if before != nil {
		b = *before
	}
	epoch, owner, floor, lineage := b.Epoch, b.Owner, b.Floor, b.Lineage
	switch e.Op {
	case messages.OpAcquire:
		epoch, owner = b.Epoch+1, e.Owner
	case messages.OpRenew, messages.OpRelease:
	case messages.OpForget:
		floor = b.Epoch
	case messages.OpLineage:
		if lineage <= floor {
			lineage = b.Epoch
		}
	case messages.OpReseed: // of a store that has lost records; see stores.Reseeder
		if e.Epoch <= b.Epoch || e.Floor < b.Floor || e.Lineage < b.Lineage || e.Owner != stores.ReseedOwner || e.EndMS != e.AtMS {
			return fmt.Errorf("a reseed to epoch %d, floor %d after %d, %d", e.Epoch, e.Floor, b.Epoch, b.Floor)
		}
		epoch, owner, floor, lineage = e.Epoch, e.Owner, e.Floor, e.Lineage
	default:
		return fmt.Errorf("an unknown operation %.20q", e.Op)
	}
	switch {
	case before == nil && e.Op != messages.OpAcquire && e.Op != messages.OpReseed:
		return fmt.Errorf("the first entry is a %s", e.Op)
	case e.Seq != b.Seq+1:
		return fmt.Errorf("entry %d comes after %d", e.Seq, b.Seq)
	case e.Epoch != epoch:
		return fmt.Errorf("epoch %d after %d by %s", e.Epoch, b.Epoch, e.Op)
	case e.Owner != owner || e.Owner == "":
		return fmt.Errorf("another owner, or none, by %s", e.Op)
	case e.Floor != floor || e.Floor > e.Epoch:
		return fmt.Errorf("floor %d after %d by %s at epoch %d", e.Floor, b.Floor, e.Op, e.Epoch)
	case e.Lineage != lineage || e.Lineage > e.Epoch:
		return fmt.Errorf("lineage %d after %d by %s at epoch %d", e.Lineage, b.Lineage, e.Op, e.Epoch)
	case e.AtMS < b.AtMS:
		return fmt.Errorf("entry %d is older than the one before it", e.Seq)
	case e.Nonce == "" || e.Nonce == b.Nonce:
		return fmt.Errorf("entry %d names no call", e.Seq)
	case (e.Log == "") != (e.Member == 0) || e.Member < 0 || e.Log != "" && !isLogName(e.Log):
		return fmt.Errorf("entry %d names no member of a renewal log", e.Seq)
	}
	return nil
}

// isLogName keeps what a record names inside the folder of the renewal logs.
func isLogName(name string) bool {
	return stores.ValidateObjectKey(name) == nil && !strings.Contains(name, "/")
}

// consistent says what is wrong with a sequence of entries; first: it is the beginning of the trail.
func consistent(trail []entry, first bool) error {
	var before *entry
	for i := range trail {
		if i > 0 || first {
			if err := trail[i].follows(before); err != nil {
				return err
			}
		}
		before = &trail[i]
	}
	return nil
}

func (r record) encode() ([]byte, error) { return json.Marshal(r) }

// decode reads a record, or says with CodeCorrupt why it cannot be one.
func decode(key messages.Key, data []byte) (*record, error) {
	var r record
	err := json.Unmarshal(data, &r)
	switch {
	case err != nil:
	case r.V != version && r.V != oldVersion:
		err = fmt.Errorf("format %d, not %d or %d", r.V, oldVersion, version)
	case r.Key != key.String():
		err = fmt.Errorf("it is the record of another key")
	case len(r.Trail) == 0 || r.SpanMS < 0:
		err = fmt.Errorf("no entries, or a negative span")
	default:
		last := r.last()
		if err = consistent(r.Trail, r.Trail[0].Seq == 1); err == nil && (last.Epoch == 0 || last.Floor > last.Epoch || last.Lineage > last.Epoch || last.Owner == "") {
			err = fmt.Errorf("epoch %d, floor %d", last.Epoch, last.Floor)
		}
	}
	if err != nil {
		return nil, corrupt(key, kindLeases+key.String(), "the record breaks the rules of leases", err)
	}
	return &r, nil
}

func corrupt(key messages.Key, object, why string, err error) error {
	return &messages.Error{Code: messages.CodeCorrupt, Key: key.String(), Object: object, Message: why, Err: err}
}
