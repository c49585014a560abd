package ledgeractor

import (
	"context"
	"encoding/json"

	"github.com/leasehold/leasehold/actors/mailbox"
	"github.com/leasehold/leasehold/messages"
)

// Handle is the way to a ledger. All methods are safe for concurrent use, from any goroutine but
// the one that runs inside a transaction of the same ledger (that one uses its Tx).
//
// Every call has a deadline (Limits.CallTimeout if ctx has none) and fails with a *messages.Error:
//
//   - CodeFenced: the lease is not provably held; nothing was done.
//   - CodeUnknownOutcome: the work was begun and may or may not stand. Cause says why: fenced,
//     deadline_exceeded or canceled.
//   - CodeDeadlineExceeded, CodeCanceled: nothing was done, and nothing will be.
//   - CodeDraining, CodeOverloaded (with RetryAfter), CodeClosed, CodeCorrupt, CodeStorage,
//     CodeSQL, CodeTooLarge, CodeInvalidArgument: as messages says; nothing was done.
type Handle struct {
	cfg    Config
	shared *shared
	ref    *mailbox.Ref
}

// Status is a ledger's state at one moment.
type Status struct {
	Open     bool   // opened, not closed, not corrupt
	Draining bool   // new work is refused
	Queued   int    // requests that wait for the actor
	Readers  int    // read-only connections that are open
	LastSeq  int64  // of the last committed event
	Events   int64  // committed rows in events
	Version  uint64 // see Handle.Version
	Err      error  // why it is not open
}

// Append stores events, all or none, and returns their places in the same order. An event whose
// idempotency key is in the ledger already is not stored again: its answer carries the first one's
// seq and Duplicate.
func (h *Handle) Append(ctx context.Context, events []messages.Event) ([]messages.Appended, error) {
	return nil, nil
}

// Run runs f in a transaction. It is committed if f returns nil, else rolled back. An error of f
// comes back wrapped with CodeCommandFailed (a *messages.Error comes back as it is), a panic of f as
// CodePanic. When ctx is done, f's statement is interrupted, its Tx is taken away and its work is
// rolled back, whether f returns or not.
func (h *Handle) Run(ctx context.Context, f func(tx *Tx) error) error { return nil }

// Call runs a registered Command in a transaction, as Run does, and returns its output as JSON. An
// unknown name is CodeNotFound. Input that is not JSON, or output that cannot be written as JSON,
// is CodeInvalidArgument and CodeCommandFailed; either over its limit is CodeTooLarge.
func (h *Handle) Call(ctx context.Context, name string, in json.RawMessage) (json.RawMessage, error) {
	return nil, nil
}

// Query runs one SELECT beside the writer and sees every write that was acknowledged before it
// began. Anything but a plain read is CodeReadOnly; what SQLite does not accept is CodeSQL.
func (h *Handle) Query(ctx context.Context, sql string, args ...any) (*Result, error) {
	return nil, nil
}

// Events returns the events after a seq in order, at most limit (0: Limits.MaxRows) and at most
// Limits.MaxBytes, and whether there are more.
func (h *Handle) Events(ctx context.Context, after int64, limit int) (events []messages.StoredEvent, more bool, err error) {
	return nil, false, nil
}

// Cut returns an image of the ledger that holds exactly the writes committed before it began. It
// works while draining. The copying happens on the caller's goroutine, while the ledger serves; one
// Cut runs at a time. A ledger over Limits.MaxImageBytes is CodeTooLarge.
func (h *Handle) Cut(ctx context.Context) (Image, error) { return Image{}, nil }

// Drain lets everything that was queued before it finish and be acknowledged, and then refuses new
// work, reads too, with CodeDraining. It may be repeated.
func (h *Handle) Drain(ctx context.Context) error { return nil }

// Undrain takes work again.
func (h *Handle) Undrain(ctx context.Context) error { return nil }

// Version counts the transactions that changed the ledger since it was opened, its creation and
// migrations included. An Image with the same Version holds all of them.
func (h *Handle) Version() uint64 { return 0 }

// Status returns the ledger's state. It never blocks.
func (h *Handle) Status() Status { return Status{} }

// Image is a consistent copy of a ledger: an SQLite database file.
type Image struct {
	Bytes   []byte
	Events  int64  // rows in events
	LastSeq int64  // of the last event; 0: none
	Version uint64 // Handle.Version at that moment
}

// Result is what a query found. It survives JSON: a value is nil, int64, float64, bool, string,
// []byte (base64 in JSON) or time.Time. Text that is not valid UTF-8 is given as []byte, infinities
// as the strings "Infinity" and "-Infinity"; SQLite stores NaN as NULL.
type Result struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	// Truncated says that there were more rows than the limits allow.
	Truncated bool `json:"truncated,omitempty"`
}
