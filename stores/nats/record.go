package nats

import (
	"encoding/json"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// record is the state of one lease. Times are nanoseconds since 1970 by the store's clock.
type record struct {
	Owner string        `json:"owner"`
	Epoch uint64        `json:"epoch"`
	TTL   time.Duration `json:"ttl"`
	End   int64         `json:"end"`
	Floor uint64        `json:"floor"`
	// Lineage is messages.Lease.Lineage.
	Lineage uint64 `json:"lineage,omitempty"`
	// At is the newest store time that the record has seen: nothing is judged at an earlier one.
	At int64 `json:"at"`
}

func (r record) lease(key messages.Key) messages.Lease {
	return messages.Lease{Key: key, Owner: r.Owner, Epoch: r.Epoch, TTL: r.TTL, End: timeAt(r.End), Floor: r.Floor, Lineage: r.Lineage}
}

// proposal is what a message of a key says: an operation, and the record that it was proposed upon.
// Whether it is granted is not in it: that follows from the time at which the leader stored it.
type proposal struct {
	Version int           `json:"v"`
	Op      string        `json:"op"`
	Owner   string        `json:"owner"`
	Epoch   uint64        `json:"epoch,omitempty"` // of the holder; 0 for an acquire
	TTL     time.Duration `json:"ttl,omitempty"`   // of acquire and renew
	Nonce   string        `json:"nonce"`           // tells one's own proposal from others after a lost answer
	Prev    *record       `json:"prev,omitempty"`  // nil: the key was never acquired
	Seed    *seed         `json:"seed,omitempty"`  // of a reseed
}

// seed is what a reseed raises a record to; see stores.Seed. Live: also one whose lease has not ended.
type seed struct {
	Epoch   uint64 `json:"epoch"`
	Floor   uint64 `json:"floor"`
	Lineage uint64 `json:"lineage"`
	Live    bool   `json:"live,omitempty"`
}

// raise returns the record after a reseed at the time at, and whether it differs.
func (s seed) raise(r record, at int64) (record, bool) {
	lease, raised := stores.Seed{Epoch: s.Epoch, Floor: s.Floor, Lineage: s.Lineage}.Raise(r.lease(messages.Key{}), timeAt(at))
	if !raised {
		return r, false
	}
	return record{Owner: lease.Owner, Epoch: lease.Epoch, TTL: lease.TTL, End: at, Floor: lease.Floor, Lineage: lease.Lineage, At: at}, true
}

const version = 1

// judge is the one function that decides about leases. It returns the record after the proposal was
// stored at the time ts, and whether it was granted; one that is refused changes nothing but the time.
// No outcome moves an epoch by anything but one (but a reseed, which raises it), lowers a floor, or changes the owner of an epoch.
func (p proposal) judge(ts int64) (after record, granted bool) {
	if p.Op == messages.OpReseed && p.Seed == nil {
		return record{}, false
	}
	if p.Prev == nil {
		if p.Op == messages.OpReseed {
			return p.Seed.raise(record{}, ts)
		}
		if p.Op != messages.OpAcquire {
			return record{}, false
		}
		return record{Owner: p.Owner, Epoch: 1, TTL: p.TTL, End: ts + int64(p.TTL), At: ts}, true
	}
	after = *p.Prev
	// The clock of a new leader may be behind the one of the last: the store's time stands still then.
	after.At = max(ts, after.At)
	live := after.At < after.End
	if p.Op == messages.OpAcquire {
		if live {
			return after, false
		}
		after.Owner, after.TTL, after.Epoch, after.End = p.Owner, p.TTL, after.Epoch+1, after.At+int64(p.TTL)
		return after, true
	}
	if p.Op == messages.OpReseed {
		if live && !p.Seed.Live {
			return after, false
		}
		return p.Seed.raise(after, after.At)
	}
	if !live || after.Owner != p.Owner || after.Epoch != p.Epoch {
		return after, false
	}
	switch p.Op {
	case messages.OpRenew:
		// A renewal never takes back time that was promised before.
		after.TTL, after.End = p.TTL, max(after.End, after.At+int64(p.TTL))
	case messages.OpRelease:
		after.End = after.At
	case messages.OpForget:
		after.Floor = after.Epoch
	case messages.OpLineage:
		if after.Lineage <= after.Floor {
			after.Lineage = after.Epoch
		}
	}
	return after, true
}

// view is what is known of a key: its record, and the sequence that the next write must name.
type view struct {
	seq uint64  // of the last message of the key, well formed or not; 0: there is none
	rec *record // nil: the key was never acquired
}

// names are the subjects of a lease bucket. It is laid out as a JetStream key-value bucket, so that the
// usual tools can look at it.
type names struct{ stream, prefix string }

func leaseNames(cluster string) names {
	return names{stream: "KV_" + cluster + "-leases", prefix: "$KV." + cluster + "-leases."}
}

func (n names) all() string     { return n.prefix + ">" }
func (n names) confirm() string { return n.prefix + "confirm" }
func (n names) base(key messages.Key) string {
	return n.prefix + "lease." + string(key.Org) + "." + string(key.Tenant)
}
func (n names) key(key messages.Key) string   { return n.base(key) + ".*" } // the filter of compare-and-set
func (n names) grant(key messages.Key) string { return n.base(key) + ".grant" }
func (n names) renew(key messages.Key) string { return n.base(key) + ".renew" }

// subject of an operation. Renewals have one of their own, so that they do not push grants out.
func (n names) subject(key messages.Key, op string) string {
	if op == messages.OpRenew {
		return n.renew(key)
	}
	return n.grant(key)
}

// parse reads a stored message of a key. ok is false for what this package did not write: it has no part
// in the record. prevSeq is the sequence that the leader compared.
func (n names) parse(key messages.Key, m *stored) (p proposal, prevSeq uint64, ok bool) {
	header, err := natsgo.DecodeHeadersMsg(m.Header)
	if err != nil || header.Get(hdrExpectedSubject) != n.key(key) {
		return p, 0, false
	}
	// The header is what the leader has compared before it stored the message, so a copy of an older
	// message, or one that was published without a condition, cannot pass.
	if prevSeq, err = strconv.ParseUint(header.Get(hdrExpectedSeq), 10, 64); err != nil || prevSeq >= m.Seq {
		return p, 0, false
	}
	if json.Unmarshal(m.Data, &p) != nil || p.Version != version || p.Nonce == "" || n.subject(key, p.Op) != m.Subject || !p.sound() {
		return p, 0, false
	}
	return p, prevSeq, true
}

func (p proposal) sound() bool {
	if messages.ValidateOwner(p.Owner) != nil {
		return false
	}
	switch p.Op {
	case messages.OpAcquire, messages.OpRenew:
		if messages.ValidateTTL(p.TTL) != nil {
			return false
		}
	case messages.OpRelease, messages.OpForget, messages.OpLineage:
	case messages.OpReseed:
		if p.Seed == nil || p.Seed.Epoch == 0 || p.Seed.Floor > p.Seed.Epoch || p.Seed.Lineage > p.Seed.Epoch {
			return false
		}
	default:
		return false
	}
	if p.Prev == nil {
		return p.Op == messages.OpAcquire || p.Op == messages.OpReseed
	}
	r := *p.Prev
	return messages.ValidateOwner(r.Owner) == nil && messages.ValidateTTL(r.TTL) == nil && r.Epoch > 0 && r.Floor <= r.Epoch && r.Lineage <= r.Epoch && r.At > 0 && r.End > 0
}

func timeAt(ns int64) time.Time { return time.Unix(0, ns).UTC() }
