package leaseactor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// Store is what a holder needs of a lease store; every stores.LeaseStore is one. It is linearizable,
// time is its own clock, and a method whose context ends returns at once, though its request may
// still take effect at any later time.
type Store interface {
	// Read returns the record of a key; ok is false for a key that was never acquired.
	Read(ctx context.Context, key messages.Key) (lease messages.Lease, ok bool, err error)
	// Acquire grants an absent, expired or released lease at the next epoch, else CodeHeld.
	Acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error)
	// Renew moves the end of an unexpired lease, for its holder at its epoch, else CodeLost.
	Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error)
	// Release ends an unexpired lease, for its holder at its epoch, else CodeLost.
	Release(ctx context.Context, key messages.Key, owner string, epoch uint64) error
	// MarkForgotten sets the floor to the epoch, for the holder of an unexpired lease, else CodeLost.
	MarkForgotten(ctx context.Context, key messages.Key, owner string, epoch uint64) error
	// MarkLineage records that there are copies of the tenant, for the holder of an unexpired lease, else CodeLost.
	MarkLineage(ctx context.Context, key messages.Key, owner string, epoch uint64) error
}

// maxCallTimeout bounds the default of Config.CallTimeout.
const maxCallTimeout = 5 * time.Second

// Config describes a holder session. Store, Key, Owner, TTL and Spent are needed.
type Config struct {
	Store Store
	Key   messages.Key
	// Owner is the incarnation of this process (messages.NewOwner). Two processes never share one.
	Owner string
	// TTL is the time to live that is asked of the store: messages.MinTTL to MaxTTL, whole ms.
	TTL time.Duration
	// Margin is how much earlier than the lease the holder's own window ends: at least as long as the
	// clocks of holder and store can drift apart within a TTL, or the store's clock can jump. From 0
	// to below TTL.
	Margin time.Duration
	// CallTimeout bounds one request to the store; 0: a third of the TTL, at most 5 s. Shorter than
	// TTL − Margin, so that a request that hangs leaves time for another.
	CallTimeout time.Duration
	// RenewEvery makes an Actor renew by itself in this interval; 0: only when it is told to. A Holder
	// does not use it.
	RenewEvery time.Duration
	// Now is the holder's clock; nil: time.Now. Only differences of its readings count.
	Now func() time.Time
	// Spent is the node's memory across sessions: one for all sessions of an Owner.
	Spent *Spent
	// Planted are rules left out on purpose, for tests; the zero Set leaves none out.
	Planted planted.Set
	// Log gets what is worth a line; nil: slog.Default().
	Log *slog.Logger
}

// Validate returns an error with CodeInvalidID for a malformed key, CodeOutOfRange for an owner, ttl,
// margin or timeout that can never work, and CodeInvalidArgument for a missing Store or Spent. It
// touches no store (D12).
func (c Config) Validate() error {
	if c.Store == nil || c.Spent == nil {
		return &messages.Error{Code: messages.CodeInvalidArgument, Message: "a lease holder needs a store and a memory of spent epochs"}
	}
	if err := c.Key.Validate(); err != nil {
		return err
	}
	if err := messages.ValidateOwner(c.Owner); err != nil {
		return err
	}
	if err := messages.ValidateTTL(c.TTL); err != nil {
		return err
	}
	if c.Margin < 0 || c.Margin >= c.TTL {
		return &messages.Error{Code: messages.CodeOutOfRange, Message: fmt.Sprintf("margin %v is not from 0 to below the ttl %v", c.Margin, c.TTL)}
	}
	if c.CallTimeout < 0 || c.RenewEvery < 0 {
		return &messages.Error{Code: messages.CodeOutOfRange, Message: "call timeout and renewal interval must not be negative"}
	}
	return nil
}

// withDefaults fills in what may be left out. Now stays nil: the fence has a faster way then.
func (c Config) withDefaults() Config {
	if c.CallTimeout == 0 {
		c.CallTimeout = min(c.TTL/3, maxCallTimeout)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}
