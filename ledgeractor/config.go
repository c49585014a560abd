package ledgeractor

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// Fence says whether the lease is provably held. Check returns nil while it is, else a
// *messages.Error with CodeFenced. It is called very often and from several goroutines at once, so
// it must be cheap and must not block.
type Fence interface {
	Check() error
}

// Command is application code that callers reach by name, wherever they are. It runs in a
// transaction of its own; out is answered as JSON. An error or a panic rolls its work back. A messages.ApplicationError travels to
// the caller; any other error is CodeCommandFailed there, and its text goes to the log with the command's name: it should hold no
// personal data. A command must stop when ctx is done; if it does not, its Tx is taken away from it.
type Command func(ctx context.Context, tx *Tx, in json.RawMessage) (out any, err error)

// Migration changes the application's own tables. Each version runs once per ledger, in a
// transaction of its own, when the ledger is opened. Exactly one of SQL and Apply is set. A version
// that has run must never be changed or taken out of the list. What Tx refuses is refused here too,
// and Limits.MaxSQLBytes holds. It runs whether or not the fence is open: nothing is acknowledged by it.
type Migration struct {
	Version int    // 1 or more; ascending
	Name    string // for people
	// SQL is one or more statements.
	SQL string
	// Apply is for what SQL cannot say. Only its version and name can be recognized later.
	Apply func(ctx context.Context, tx *Tx) error
	// CompatibleSince says which applications can still open a ledger on which this migration has run: those whose newest
	// migration has this version, or a later one; AnyApplication: also one without migrations. 0: only those that have
	// this migration. It is written into the ledger when the migration runs, and what was written counts.
	CompatibleSince int
}

// AnyApplication is a Migration.CompatibleSince.
const AnyApplication = -1

// Limits bounds what one ledger may cost. A zero field stands for its default.
type Limits struct {
	// MaxRows is the largest number of rows of a query and of events in one page. Default 10,000.
	MaxRows int
	// MaxBytes bounds the bytes of the values in one result. Default 8 MiB.
	MaxBytes int64
	// MaxValueBytes is the largest single string, blob or row SQLite handles. Default 16 MiB.
	MaxValueBytes int
	// MaxSQLBytes is the longest SQL text. Default 256 KiB.
	MaxSQLBytes int
	// MaxInputBytes and MaxOutputBytes bound a command's JSON input and output, and the former also the events of one append, as
	// messages.Event.Size counts. Defaults messages.MaxRequestBytes, which no request exceeds, and 8 MiB.
	MaxInputBytes  int
	MaxOutputBytes int
	// MaxImageBytes is the largest ledger of which Cut takes an image: a write that would make a ledger larger is refused with
	// CodeTooLarge, and so is a migration. Cut needs that much memory, and as much disk, while it runs. At least
	// 256 KiB; default DefaultMaxImageBytes.
	MaxImageBytes int64
	// QueryTimeout bounds a read, whatever the caller's deadline. Default 10 s.
	QueryTimeout time.Duration
	// CallTimeout is the deadline of a call whose context has none. Default 30 s.
	CallTimeout time.Duration
	// MaxQueued is the number of requests that may wait for the actor, of queries that may wait for their turn, and of
	// pages of events that may wait for theirs. Default 1,024.
	MaxQueued int
	// MaxBatch is the number of requests that share one commit. Default 256.
	MaxBatch int
	// MaxReaders is the number of queries of this ledger that run at a time, and of pages of events. Default 2.
	MaxReaders int
	// ReaderIdle is how long an unused read-only connection stays open. Default 30 s.
	ReaderIdle time.Duration
	// CacheKiB is the page cache of each connection. Default 512.
	CacheKiB int
}

// DefaultMaxImageBytes is the default of Limits.MaxImageBytes.
const DefaultMaxImageBytes = 1 << 30

// minImageBytes is a few times the size of an empty ledger.
const minImageBytes = 256 << 10

// withDefaults returns the limits with every zero field replaced by its default.
func (l Limits) withDefaults() Limits {
	def(&l.MaxRows, 10_000)
	def(&l.MaxBytes, 8<<20)
	def(&l.MaxValueBytes, 16<<20)
	def(&l.MaxSQLBytes, 256<<10)
	def(&l.MaxInputBytes, messages.MaxRequestBytes)
	def(&l.MaxOutputBytes, 8<<20)
	def(&l.MaxImageBytes, DefaultMaxImageBytes)
	def(&l.QueryTimeout, 10*time.Second)
	def(&l.CallTimeout, 30*time.Second)
	def(&l.MaxQueued, 1024)
	def(&l.MaxBatch, 256)
	def(&l.MaxReaders, 2)
	def(&l.ReaderIdle, 30*time.Second)
	def(&l.CacheKiB, 512)
	return l
}

func def[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Validate returns an error with CodeInvalidArgument for a negative limit.
func (l Limits) Validate() error {
	for name, v := range map[string]int64{
		"MaxRows": int64(l.MaxRows), "MaxBytes": l.MaxBytes, "MaxValueBytes": int64(l.MaxValueBytes),
		"MaxSQLBytes": int64(l.MaxSQLBytes), "MaxInputBytes": int64(l.MaxInputBytes), "MaxOutputBytes": int64(l.MaxOutputBytes),
		"MaxImageBytes": l.MaxImageBytes, "QueryTimeout": int64(l.QueryTimeout), "CallTimeout": int64(l.CallTimeout),
		"MaxQueued": int64(l.MaxQueued), "MaxBatch": int64(l.MaxBatch), "MaxReaders": int64(l.MaxReaders),
		"ReaderIdle": int64(l.ReaderIdle), "CacheKiB": int64(l.CacheKiB),
	} {
		if v < 0 {
			return invalid(fmt.Sprintf("limit %s is negative", name))
		}
	}
	if l.MaxImageBytes > 0 && l.MaxImageBytes < minImageBytes {
		return invalid(fmt.Sprintf("limit MaxImageBytes is below %d, the room that an empty ledger needs", minImageBytes))
	}
	if l.MaxValueBytes > 0 && l.MaxValueBytes < 2*messages.MaxPayloadBytes {
		return invalid(fmt.Sprintf("limit MaxValueBytes is below %d, the room that an event needs", 2*messages.MaxPayloadBytes))
	}
	return nil
}

// Config says which ledger an Actor runs, and how.
type Config struct {
	// Path is the SQLite file. Its folder must exist; the file is created if it is absent, readable
	// by its owner only.
	Path string
	// Key is the tenant. Every row of events carries it.
	Key messages.Key
	// Epoch is the epoch of the lease, for error documents.
	Epoch uint64
	// Fence is required.
	Fence Fence
	// Now is the clock of events without a time and of idle connections. Default time.Now.
	Now func() time.Time
	// Migrations and Commands are the application's. Optional.
	Migrations []Migration
	Commands   map[string]Command
	// Limits has working defaults.
	Limits Limits
	// MaxUnsaved and MaxUnsavedBytes bound what is acknowledged and in no copy yet, by the age of the oldest write, and by
	// what Handle.Unsaved counts. Beyond that writes are refused with CodeUnsavedLimit until Handle.Saved says that a copy was
	// made. 0: no bound.
	MaxUnsaved      time.Duration
	MaxUnsavedBytes int64
	// Queries is what this ledger's queries share with those of other ledgers. It must stay open as long as the ledger.
	// Default: one of its own, in this process.
	Queries *Queries
	// Planted is for tests only.
	Planted planted.Set
	// Log gets what an operator must know; never SQL, payloads or keys of events. Default: discarded.
	Log *slog.Logger
}

// Validate returns an error with CodeInvalidID or CodeInvalidArgument for a configuration that can
// never work. It touches no file.
func (c Config) Validate() error {
	if err := c.Key.Validate(); err != nil {
		return err
	}
	if c.Path == "" || !filepath.IsAbs(c.Path) {
		return invalid("the path of a ledger must be absolute")
	}
	if c.Fence == nil {
		return invalid("a ledger needs a fence")
	}
	if err := c.Limits.Validate(); err != nil {
		return err
	}
	for name, command := range c.Commands {
		if name == "" || command == nil {
			return invalid("a command needs a name and a function")
		}
	}
	return validateMigrations(c.Migrations)
}

func validateMigrations(list []Migration) error {
	last := 0
	for _, m := range list {
		switch {
		case m.Version <= last:
			return invalid(fmt.Sprintf("migration %d is not above its predecessor %d", m.Version, last))
		case m.Name == "":
			return invalid(fmt.Sprintf("migration %d has no name", m.Version))
		case (m.SQL == "") == (m.Apply == nil):
			return invalid(fmt.Sprintf("migration %d needs either SQL or Apply", m.Version))
		case m.CompatibleSince < AnyApplication || m.CompatibleSince > m.Version:
			return invalid(fmt.Sprintf("migration %d cannot be compatible since %d", m.Version, m.CompatibleSince))
		}
		last = m.Version
	}
	return nil
}

// withDefaults returns a copy that later changes of the caller's slices and maps do not reach.
func (c Config) withDefaults() Config {
	c.Limits = c.Limits.withDefaults()
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Queries == nil {
		own := QueriesConfig{Max: 2 * c.Limits.MaxReaders, Now: c.Now, Log: c.Log}.withDefaults()
		c.Queries = &Queries{cfg: own, queue: newFairQueue(own.Max, own.Share, own.Now)}
	}
	c.Migrations = slices.Clone(c.Migrations)
	commands := make(map[string]Command, len(c.Commands))
	for name, command := range c.Commands {
		commands[name] = command
	}
	c.Commands = commands
	return c
}

func invalid(message string) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: message}
}
