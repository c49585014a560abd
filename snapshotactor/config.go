package snapshotactor

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// Store is what this package needs of a durable store; stores.DurableStore is one. Objects are
// immutable; reads and lists see every completed put; a call that ends with CodeUnavailable may take
// effect at any later time, or never. Methods must be safe for concurrent use and honour ctx.
type Store interface {
	PutIfAbsent(ctx context.Context, key string, data []byte) (created bool, err error)
	Get(ctx context.Context, key string, most int64) (data []byte, ok bool, err error)
	List(ctx context.Context, prefix string) ([]string, error)
	Delete(ctx context.Context, key string) (deleted bool, err error)
	DeletePrefix(ctx context.Context, prefix string) (count int, err error)
}

// Fence is the holder's own proof that it may still acknowledge. Both methods must be safe for
// concurrent use and must not block.
type Fence interface {
	// Check returns nil while the lease is provably held, else an error with CodeFenced.
	Check() error
	// Close closes the fence for good, with one of the messages.Reason constants.
	Close(reason string)
}

// Verifier checks a restored SQLite file: its integrity, and that every row belongs to key. It
// returns the number of rows in the events table and the highest seq (0: none). An error with
// CodeStorage, CodeUnavailable, CodeCanceled or CodeDeadlineExceeded says that the check could not
// be made; every other error says that the file is bad.
type Verifier interface {
	Verify(ctx context.Context, path string, key messages.Key) (events, lastSeq int64, err error)
}

// Image is a consistent copy of a ledger, as Config.Cut returns it. Bytes must not be changed
// afterwards: a doubtful upload is finished with the same bytes, however much later.
type Image struct {
	Bytes []byte
	// Events is the number of rows in the events table, LastSeq its highest seq (0: none).
	Events  int64
	LastSeq int64
	// CutAt is the time of the cut by the holder's clock; the zero Time: when Publish was called.
	CutAt time.Time
	// Version is the ledger's own count of changes at the cut. This package only passes it on, in
	// Taken, so that the supervisor knows which writes the snapshot covers.
	Version uint64
}

// Retention says which snapshots older than the newest proven one are kept, for a restore to a
// point in time. The zero Retention keeps none of them.
type Retention struct {
	// Keep is how many of them, the newest first. Below 0 counts as 0.
	Keep int
	// MinAge keeps those that are younger than this, by their manifest's time and Config.Now.
	MinAge time.Duration
}

// Defaults of a Config.
const (
	// DefaultCallTimeout bounds one call of the store.
	DefaultCallTimeout = 30 * time.Second
	// DefaultAttempts is how often a call that was not answered is made.
	DefaultAttempts = 6
	// DefaultBackoff is the wait after the first failed attempt; it doubles up to DefaultMaxBackoff.
	DefaultBackoff    = 50 * time.Millisecond
	DefaultMaxBackoff = 2 * time.Second
)

// Config is what one tenant's snapshot actor works with. It is a value; it must not change while in
// use.
type Config struct {
	// Store holds the durable copies. Needed.
	Store Store
	// Key names the tenant. Needed.
	Key messages.Key
	// Owner is the owner id in the lease. Needed by Open and Publish; it makes pins and manifests
	// recognizable.
	Owner string
	// Fence is the holder's fence. Needed by Publish.
	Fence Fence
	// Verifier checks restored files. Needed by Open.
	Verifier Verifier
	// File is the path of the tenant's local SQLite file. Open replaces it; its folder must exist by then.
	// Needed by Open.
	File string
	// Prepare (nil: nothing) makes room for File. Open calls it once, when it knows what to restore and before it
	// writes anything: an open that is refused leaves no trace.
	Prepare func(ctx context.Context) error
	// Rehearse (nil: nothing) tries what will be done with File, which is what was restored, or is not there if there was nothing, and must
	// be as it was afterwards. Open calls it before it publishes anything; its error ends the open.
	Rehearse func(ctx context.Context) error
	// Cut takes a consistent copy of the ledger while it serves. Needed by the actor's Take.
	Cut func(ctx context.Context) (Image, error)
	// CutLast does the same while the fence has closed by itself. Needed by a Take with Last.
	CutLast func(ctx context.Context) (Image, error)
	// MaxImageBytes bounds the images that Open restores, whatever their manifests say: they are held in memory. 0: no bound of its own.
	MaxImageBytes int64
	// Now is the holder's clock; nil: time.Now. It only dates manifests and ages snapshots.
	Now func() time.Time
	// Nonce returns a word that no other attempt uses; nil: 130 random bits as text. A simulation
	// sets it to be replayable.
	Nonce func() string
	// CallTimeout bounds each call of the store; 0: DefaultCallTimeout.
	CallTimeout time.Duration
	// Attempts is how often a call of the store that was not answered is made before the operation
	// gives up with CodeUnavailable; 0: DefaultAttempts.
	Attempts int
	// Backoff is the wait after a first failed attempt, MaxBackoff the longest; 0: the defaults.
	Backoff    time.Duration
	MaxBackoff time.Duration
	// Retention is the policy of the actor's Retain.
	Retention Retention
	// Planted switches rules of the protocol off, for tests; the zero Set is the correct protocol.
	Planted planted.Set
	// Log gets names of objects, epochs and codes; nil: nothing is logged.
	Log *slog.Logger
}

// withDefaults returns c with every zero field that has a default filled in, or an error with
// CodeInvalidID or CodeInvalidArgument.
func (c Config) withDefaults() (Config, error) {
	if err := c.Key.Validate(); err != nil {
		return c, err
	}
	if c.Store == nil {
		return c, &messages.Error{Code: messages.CodeInvalidArgument, Key: c.Key.String(), Message: "no durable store is configured"}
	}
	if c.CallTimeout < 0 || c.Attempts < 0 || c.Backoff < 0 || c.MaxBackoff < 0 {
		return c, &messages.Error{Code: messages.CodeInvalidArgument, Key: c.Key.String(), Message: "a timeout, backoff or number of attempts is negative"}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Nonce == nil {
		c.Nonce = func() string { return rand.Text() }
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = DefaultCallTimeout
	}
	if c.Attempts == 0 {
		c.Attempts = DefaultAttempts
	}
	if c.Backoff == 0 {
		c.Backoff = DefaultBackoff
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = DefaultMaxBackoff
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
