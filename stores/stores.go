package stores

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// LeaseStore keeps one lease record per key. It must be linearizable. Time is the STORE's clock,
// never the caller's. All methods are safe for concurrent use and honour ctx.
//
// Every method validates its arguments before it touches the store and returns an error with
// messages.CodeInvalidID (key) or CodeOutOfRange (owner, ttl) for what can never work. A store that
// does not answer is CodeUnavailable: the operation may or may not have taken effect.
type LeaseStore interface {
	// Read returns the record of a key; ok is false for a key that was never acquired.
	Read(ctx context.Context, key messages.Key) (lease messages.Lease, ok bool, err error)
	// Acquire grants the lease at the next epoch if it is absent, expired or released. While it is
	// unexpired it returns CodeHeld with the current record, to its holder too (a holder renews).
	Acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error)
	// Renew moves the end of an unexpired lease, for its holder at its epoch; else CodeLost.
	Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error)
	// Release ends an unexpired lease at once, for its holder at its epoch; else CodeLost. The
	// epoch stays in the record.
	Release(ctx context.Context, key messages.Key, owner string, epoch uint64) error
	// MarkForgotten sets the floor to the holder's epoch, for the holder of an unexpired lease at
	// its epoch; else CodeLost.
	MarkForgotten(ctx context.Context, key messages.Key, owner string, epoch uint64) error
	// MarkLineage records that the durable store holds copies of the tenant: it sets Lineage to the holder's epoch, unless the
	// record says so already (messages.Lease.HasLineage), for the holder of an unexpired lease at its epoch; else CodeLost.
	// Later grants keep it.
	MarkLineage(ctx context.Context, key messages.Key, owner string, epoch uint64) error
	// History returns the audit trail of a key: every granted operation in order.
	History(ctx context.Context, key messages.Key) ([]messages.LeaseEntry, error)
}

// Renewal asks for one renewal of a batch.
type Renewal struct {
	Key   messages.Key
	Owner string
	Epoch uint64
	TTL   time.Duration
}

// RenewalResult answers one renewal of a batch, exactly as LeaseStore.Renew would have.
type RenewalResult struct {
	Lease messages.Lease
	Err   error
}

// BatchRenewer is what a LeaseStore may implement to renew many leases in one round trip. The
// results are in the order of the renewals; one that is refused fails alone. An error of the call
// itself stands for all of them.
type BatchRenewer interface {
	RenewMany(ctx context.Context, renewals []Renewal) ([]RenewalResult, error)
}

// LeaseLister is what a LeaseStore may implement for tools and for the sweep of forgotten tenants.
// It returns records in the order of their keys ("<org>/<tenant>" as text), at most limit, from the
// first key after the given one ("" for the beginning).
type LeaseLister interface {
	Leases(ctx context.Context, after string, limit int) ([]messages.Lease, error)
	// Forgotten is Leases for the records whose floor is above 0.
	Forgotten(ctx context.Context, after string, limit int) ([]messages.Lease, error)
}

// ObjectLimiter is what a DurableStore may implement whose objects have a largest size. A node whose ledgers may grow beyond
// it does not start: they could not be copied.
type ObjectLimiter interface {
	MaxObjectBytes() int64
}

// DurableStore keeps immutable objects. Keys are slash-separated segments of [A-Za-z0-9._-]; no
// segment begins with a dot. Reads and lists see every completed put. All methods are safe for
// concurrent use, validate their arguments first (CodeOutOfRange) and honour ctx; a store that does
// not answer is CodeUnavailable, and then the operation may take effect at any later time, or never.
type DurableStore interface {
	// PutIfAbsent creates an object. If the key exists it changes nothing and returns false. A
	// crash in the middle leaves nothing or the whole object; a put that reported success survives
	// a power cut. The caller must not change data until PutIfAbsent has returned.
	PutIfAbsent(ctx context.Context, key string, data []byte) (created bool, err error)
	// Get returns an object's bytes; ok is false for an absent key. Whoever reads knows how large the object can be: one of more
	// than most bytes is refused (Oversized), before room for it is made.
	Get(ctx context.Context, key string, most int64) (data []byte, ok bool, err error)
	// List returns the keys that begin with prefix, sorted as text. The prefix may end inside the
	// last segment; "" lists everything.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete removes one object and reports whether it was there. Retention needs it: DeletePrefix
	// takes whole segments only.
	Delete(ctx context.Context, key string) (deleted bool, err error)
	// DeletePrefix removes every object below a prefix that ends in a slash, and counts them.
	DeletePrefix(ctx context.Context, prefix string) (count int, err error)
}
