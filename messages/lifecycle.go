package messages

import "time"

// LifecycleKind names what happened to a tenant on a node.
type LifecycleKind string

// The lifecycle events of a tenant.
const (
	LifecycleAcquired  LifecycleKind = "acquired" // the lease was granted
	LifecycleRestored  LifecycleKind = "restored" // the ledger was restored, verified and pinned; Position says from what
	LifecycleServing   LifecycleKind = "serving"  // the first request may be acknowledged
	LifecycleRenewed   LifecycleKind = "renewed"  // a renewal succeeded
	LifecycleFenced    LifecycleKind = "fenced"   // the window ran out, or somebody else's object was met; Reason says which
	LifecycleResumed   LifecycleKind = "resumed"  // a renewal at the same epoch opened the fence again
	LifecycleSnapshot  LifecycleKind = "snapshot" // a snapshot was published and counts; Position says which
	LifecycleSnapFail  LifecycleKind = "snapshot_failed"
	LifecycleLastSnap  LifecycleKind = "last_snapshot" // a fenced tenant's last snapshot was published; it does not count. Position says which
	LifecycleDraining  LifecycleKind = "draining"      // new work is refused
	LifecycleUndrained LifecycleKind = "undrained"     // a handoff failed; the tenant serves again
	LifecycleReleased  LifecycleKind = "released"      // the lease was given back; Flushed says whether all writes are durable
	LifecycleLost      LifecycleKind = "lost"          // the lease is gone for good
	LifecycleSetAside  LifecycleKind = "set_aside"     // local files with writes that no snapshot holds are kept, and not served
	LifecycleForgotten LifecycleKind = "forgotten"     // every copy was deleted
	LifecycleSwept     LifecycleKind = "swept"         // leftovers at or below the floor were deleted; Count says how many
	LifecycleRetained  LifecycleKind = "retained"      // old copies were deleted; Count says how many
	LifecycleClosed    LifecycleKind = "closed"        // the actor is gone
	LifecycleFailed    LifecycleKind = "open_failed"
	LifecycleFilesLost LifecycleKind = "files_lost" // the local ledger was deleted or replaced; what its open connection has is saved
	LifecycleCorrupt   LifecycleKind = "corrupt"    // the local ledger was abandoned; the next open restores the durable copy
	LifecyclePanic     LifecycleKind = "panic"      // our own code panicked; the log has the stack
)

// Lifecycle is one event in the life of an open tenant. It carries keys, epochs and codes; never an
// issuer, a subject, an idempotency key, a payload or SQL.
type Lifecycle struct {
	Kind     LifecycleKind `json:"kind"`
	Key      Key           `json:"key"`
	Owner    string        `json:"owner"`
	Epoch    uint64        `json:"epoch"`
	At       time.Time     `json:"at"` // by the node's clock
	Position Position      `json:"position,omitzero"`
	Events   int64         `json:"events,omitempty"` // rows in the events table
	LastSeq  int64         `json:"last_seq,omitempty"`
	Flushed  *bool         `json:"flushed,omitempty"`
	Count    int           `json:"count,omitempty"`
	Code     Code          `json:"code,omitempty"`   // of the failure, if it is one
	Reason   string        `json:"reason,omitempty"` // of the fence
	Object   string        `json:"object,omitempty"` // at fault
}
