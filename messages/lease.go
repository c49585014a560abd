package messages

import (
	"fmt"
	"time"
)

// Bounds of a lease's time to live. A TTL is a whole number of milliseconds.
const (
	MinTTL = 100 * time.Millisecond
	MaxTTL = time.Hour
)

// MaxOwnerBytes is the longest owner id that a lease store takes.
const MaxOwnerBytes = 256

// ValidateTTL returns an error with CodeOutOfRange unless ttl is a whole number of milliseconds
// from MinTTL to MaxTTL.
func ValidateTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL || ttl%time.Millisecond != 0 {
		return &Error{Code: CodeOutOfRange, Message: fmt.Sprintf("ttl %v is not a whole number of milliseconds from %v to %v", ttl, MinTTL, MaxTTL)}
	}
	return nil
}

// ValidateOwner returns an error with CodeOutOfRange if owner is blank or longer than MaxOwnerBytes.
func ValidateOwner(owner string) error {
	for _, r := range owner {
		if r < ' ' || r == 0x7f || r == '�' {
			return &Error{Code: CodeOutOfRange, Message: "owner holds a control character or broken UTF-8"}
		}
	}
	if len(owner) > MaxOwnerBytes || len(owner) == 0 || owner[0] == ' ' || owner[len(owner)-1] == ' ' {
		return &Error{Code: CodeOutOfRange, Message: fmt.Sprintf("owner must have 1 to %d bytes and neither begin nor end with a space", MaxOwnerBytes)}
	}
	return nil
}

// Lease is the record of a lease store: who may serve a tenant, and until when.
type Lease struct {
	Key Key `json:"key"`
	// Owner is the node incarnation that holds the lease (see NewOwner).
	Owner string `json:"owner"`
	// Epoch is the fencing token: 1 at the first grant, one more at each grant after.
	Epoch uint64 `json:"epoch"`
	// TTL is the time to live that the last acquire or renew asked for.
	TTL time.Duration `json:"ttl_ns"`
	// End is when the lease ends, by the STORE's clock. At End it is over.
	End time.Time `json:"end"`
	// Floor is the highest forgotten epoch: nothing of an epoch at or below it may be restored.
	Floor uint64 `json:"floor"`
	// Lineage is the epoch in which the tenant's lineage was marked (LeaseStore.MarkLineage); 0: never. It counts as long
	// as it is above Floor: see HasLineage.
	Lineage uint64 `json:"lineage"`
}

// Exists reports whether there is a tenant by its record: it was granted since it was last forgotten.
func (l Lease) Exists() bool { return l.Epoch > l.Floor }

// HasLineage reports whether the record says that the durable store holds copies of the tenant. A forget ends that.
func (l Lease) HasLineage() bool { return l.Lineage > l.Floor }

// Operations of the audit trail of a lease store.
const (
	OpAcquire = "acquire"
	OpRenew   = "renew"
	OpRelease = "release"
	OpForget  = "forget"
	OpLineage = "lineage"
	OpReseed  = "reseed"
)

// LeaseEntry is one granted operation in the audit trail of a lease store.
type LeaseEntry struct {
	// Seq orders the entries of a key; it rises, but may have gaps.
	Seq   uint64        `json:"seq"`
	Op    string        `json:"op"`
	Owner string        `json:"owner"`
	Epoch uint64        `json:"epoch"`
	TTL   time.Duration `json:"ttl_ns"`
	End   time.Time     `json:"end"`
	Floor uint64        `json:"floor"`
	// Lineage is that of the record, as the operation left it.
	Lineage uint64 `json:"lineage"`
	// At is when the operation was granted, by the store's clock.
	At time.Time `json:"at"`
}

// NewOwner returns the owner id of one process start: the node's name and its random incarnation,
// so that a restarted node is never taken for its predecessor.
func NewOwner(node, incarnation string) string { return node + "#" + incarnation }

// OwnerNode returns the node name of an owner id that NewOwner made.
func OwnerNode(owner string) string {
	for i := len(owner) - 1; i >= 0; i-- {
		if owner[i] == '#' {
			return owner[:i]
		}
	}
	return owner
}
