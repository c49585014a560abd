package actors

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

// activation is one life of a tenant actor. The tenant writes it, callers read it: the fields are
// atomic because a request must not wait for the tenant's mailbox.
type activation struct {
	node *Node
	key  messages.Key
	ref  *mailbox.Ref

	ledger   atomic.Pointer[ledgeractor.Handle] // nil until the tenant serves
	epoch    atomic.Uint64
	began    atomic.Pointer[[]messages.Began] // what this epoch, and those before it, began with
	next     atomic.Pointer[string]           // the owner that the newest drain hands the tenant to; "": nobody was named
	serving  atomic.Bool
	passing  atomic.Bool                    // the newest drain is for a reason that callers are not told
	before   *messages.Error                // why the last open failed, if it did
	failed   atomic.Pointer[messages.Error] // why this open failed, if it used up an epoch, or would have
	opened   atomic.Bool                    // it has served
	needs    atomic.Int64                   // of an application that opens the ledger: ledgeractor.Needs
	called   sync.Map                       // command → nil: what was called, of the commands that are registered
	cramped  atomic.Bool                    // a request could not store what it had to since the disk has been full
	hurry    atomic.Pointer[chan struct{}]  // closed when the activation stops serving
	slot     atomic.Int32                   // whether it holds one of Node.transfers or urgent: a slot constant
	stale    atomic.Pointer[[]string]       // the planted fault list-before-grant
	inFlight atomic.Int64                   // requests
	used     atomic.Int64                   // when the last request came, by Node.sinceStart
}

func (a *activation) gone() bool {
	select {
	case <-a.ref.Done():
		return true
	default:
		return false
	}
}

func (a *activation) closed() error {
	return &messages.Error{Code: messages.CodeClosed, Key: a.key.String(), Epoch: a.epoch.Load(), Message: "the tenant is closed"}
}

// State names the states of a tenant actor.
type State string

// The states of a tenant actor.
const (
	StateOpening  State = "opening"
	StateServing  State = "serving"
	StateDraining State = "draining"
	StateClosing  State = "closing"
)

// Status describes an open tenant.
type Status struct {
	Key      messages.Key      `json:"key"`
	State    State             `json:"state"`
	Owner    string            `json:"owner"`
	Epoch    uint64            `json:"epoch"`
	From     messages.Position `json:"from"`     // what this epoch was restored from
	Snapshot uint64            `json:"snapshot"` // the newest snapshot of this epoch that counts; 0: none
	Unsaved  bool              `json:"unsaved"`  // there are commits that no snapshot holds yet
	// UnsavedFor is the age of the oldest acknowledged write that no snapshot holds, UnsavedBytes what was written since.
	// UnsavedLimit says that writes are refused because of it.
	UnsavedFor   time.Duration `json:"unsaved_for_ns"`
	UnsavedBytes int64         `json:"unsaved_bytes"`
	UnsavedLimit bool          `json:"unsaved_limit"`
	Fenced       string        `json:"fenced,omitempty"`   // why nothing is acknowledged at the moment
	Window       time.Duration `json:"window_ns"`          // what is left of the lease by the holder's own clock
	LastSeq      int64         `json:"last_seq,omitempty"` // as of the open or the newest snapshot
}
