package snapshotactor

import (
	"context"

	"github.com/leasehold/leasehold/actors/mailbox"
	"github.com/leasehold/leasehold/messages"
)

var errSoon = &messages.Error{Code: messages.CodeInternal, Message: "being built"}

// Grant is what the lease store granted: the epoch, and the floor from the SAME record.
type Grant struct {
	Epoch uint64
	Floor uint64
	// Stale is the planted fault list-before-grant: a listing (see ListNames) that was taken before
	// the lease was granted. Without that fault it is ignored.
	Stale []string
}

// Restored says what an epoch begins with.
type Restored struct {
	// From is the state that was restored; the zero Position is the empty ledger.
	From messages.Position
	// Manifest is that of the restored snapshot; nil if Empty.
	Manifest *messages.Manifest
	// Base is the pin of the epoch, as it is in the store.
	Base messages.Base
	// Empty says that there was nothing to restore; Config.File does not exist.
	Empty bool
	// Head is the pinned epoch that was followed; 0: none.
	Head uint64
	// Events and LastSeq are what the Verifier found in the restored file.
	Events  int64
	LastSeq int64
}

// Open is being built.
func Open(ctx context.Context, cfg Config, grant Grant) (Restored, error) {
	return Restored{}, errSoon
}

// ListNames is being built.
func ListNames(ctx context.Context, cfg Config) ([]string, error) { return nil, errSoon }

// Publisher puts the snapshots of one epoch. It is not safe for concurrent use, except Published and Pending.
type Publisher struct{}

// NewPublisher returns the publisher of an epoch whose pin is base. Nothing is published yet.
func NewPublisher(cfg Config, base messages.Base) (*Publisher, error) { return nil, errSoon }

// Publish is being built.
func (p *Publisher) Publish(ctx context.Context, image Image) (messages.Manifest, error) {
	return messages.Manifest{}, errSoon
}

// Settle is being built.
func (p *Publisher) Settle(ctx context.Context) (messages.Manifest, error) {
	return messages.Manifest{}, errSoon
}

// Pending reports whether a number is in doubt.
func (p *Publisher) Pending() bool { return false }

// Published returns the highest number that is published; 0: none.
func (p *Publisher) Published() uint64 { return 0 }

// Retain is being built.
func Retain(ctx context.Context, cfg Config, epoch, proven uint64, policy Retention) (deleted int, err error) {
	return 0, errSoon
}

// DeleteForgotten is being built.
func DeleteForgotten(ctx context.Context, cfg Config, floor uint64) (count int, err error) {
	return 0, errSoon
}

// Sweep is being built.
func Sweep(ctx context.Context, cfg Config, floor uint64) (count int, err error) { return 0, errSoon }

// Actor is the snapshot child of a tenant.
type Actor struct{}

var _ mailbox.Actor = (*Actor)(nil)

// New returns an actor for mailbox.Spawn. report is called on the actor's goroutine and must not block.
func New(cfg Config, report func(any)) *Actor { return &Actor{} }

// Started implements mailbox.Actor.
func (a *Actor) Started(self *mailbox.Self) {}

// Receive implements mailbox.Actor.
func (a *Actor) Receive(self *mailbox.Self, msg any) {}

// Refuse implements mailbox.Actor.
func (a *Actor) Refuse(self *mailbox.Self, msg any) {}

// Stopping implements mailbox.Actor.
func (a *Actor) Stopping(self *mailbox.Self) {}
