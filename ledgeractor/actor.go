package ledgeractor

import (
	"github.com/leasehold/leasehold/actors/mailbox"
)

// Opened is reported to the parent once the ledger was opened and migrated, or could not be. With
// an Err every request is answered with it.
type Opened struct {
	Events  int64 // rows in events
	LastSeq int64
	Err     error
}

// Corrupt is reported to the parent, once, when the database turned out to be corrupt. From then on
// every request is answered with CodeCorrupt.
type Corrupt struct {
	Err error
}

// Restarted is reported to the parent when our own code panicked: the open transaction was rolled
// back, its callers were answered, and the file was opened again.
type Restarted struct{}

// Actor owns the SQLite connection of one ledger. It is a mailbox.Actor and blocks on its disk,
// never on the network.
type Actor struct {
	cfg    Config
	report func(any)
	shared *shared
}

// New returns an actor that is not started yet. report is called on the actor's own goroutine with
// Opened, Corrupt or Restarted; it must not block (send it to the parent's mailbox). An invalid
// configuration is reported as Opened.Err.
func New(cfg Config, report func(any)) *Actor {
	return &Actor{cfg: cfg.withDefaults(), report: report, shared: &shared{}}
}

// Handle returns the way to a started actor.
func (a *Actor) Handle(ref *mailbox.Ref) *Handle { return &Handle{cfg: a.cfg, shared: a.shared, ref: ref} }

// Started opens and migrates the ledger.
func (a *Actor) Started(self *mailbox.Self) {}

// Receive handles one request, or a flush.
func (a *Actor) Receive(self *mailbox.Self, msg any) {}

// Refuse answers a request that cannot be handled any more.
func (a *Actor) Refuse(self *mailbox.Self, msg any) {}

// Stopping commits the open batch and closes the file.
func (a *Actor) Stopping(self *mailbox.Self) {}

// Panicked answers every caller and opens the file again.
func (a *Actor) Panicked(self *mailbox.Self, msg any, value any, stack []byte) bool { return false }

// shared is what the actor and its handles have in common.
type shared struct{}
