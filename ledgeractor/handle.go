package ledgeractor

import (
	"context"
	"encoding/json"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
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
//   - CodeUnsavedLimit (with RetryAfter), of writes: too much of what was acknowledged is in no copy yet; nothing was done.
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
	Requests uint64 // writes that were taken into the mailbox so far
	Readers  int    // read-only connections that are open
	LastSeq  int64  // of the last committed event
	Events   int64  // committed rows in events
	Version  uint64 // see Handle.Version
	Err      error  // why it is unusable
}

// Append stores events, all or none, and returns their places in the same order. An event whose
// idempotency key is in the ledger already is not stored again: its answer carries the first one's
// seq and Duplicate. Times are kept in UTC, to the microsecond.
func (h *Handle) Append(ctx context.Context, events []messages.Event) ([]messages.Appended, error) {
	rows, err := eventRows(h.cfg, events)
	if err != nil {
		return nil, err
	}
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	r := &request{ask: newAsk(ctx), rows: rows}
	if err := h.write(ctx, r); err != nil {
		return nil, err
	}
	return r.appended, nil
}

// Run runs f in a transaction, on a goroutine of its own. It is committed if f returns nil, else
// rolled back. An error of f comes back wrapped with CodeCommandFailed (a *messages.Error comes back
// as it is; errors.As finds a messages.ApplicationError), a panic of f as CodePanic. When ctx is done, f's statement is interrupted, its Tx is
// taken away and its work is rolled back, whether f returns or not.
func (h *Handle) Run(ctx context.Context, f func(tx *Tx) error) error {
	if f == nil {
		return invalid("there is no function to run")
	}
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	return h.write(ctx, &request{ask: newAsk(ctx), code: f})
}

// Call runs a registered Command in a transaction, as Run does, and returns its output as JSON. An
// unknown name is CodeNotFound. Input that is not JSON is CodeInvalidArgument, output that cannot be
// written as JSON is CodeCommandFailed; either over its limit is CodeTooLarge. Empty input stands
// for null.
func (h *Handle) Call(ctx context.Context, name string, in json.RawMessage) (json.RawMessage, error) {
	out, _, err := h.CallOnce(ctx, name, "", in)
	return out, err
}

// Query runs one SELECT beside the writer and sees every write that was acknowledged before it
// began. Anything but a plain read is CodeReadOnly; what SQLite does not accept is CodeSQL. A result
// over the limits is truncated. Arguments are what messages.SQLValue takes, and sql.Named; what comes back is what is stored,
// whatever type a column was declared with.
func (h *Handle) Query(ctx context.Context, sql string, args ...any) (*Result, error) {
	result, _, err := h.query(ctx, sql, args)
	return result, err
}

// QueryAt is Query that also returns the seq of the last event of the state that it shows.
func (h *Handle) QueryAt(ctx context.Context, sql string, args ...any) (result *Result, seq int64, err error) {
	return h.query(ctx, sql, args)
}

// Events returns the events after a seq in order, at most limit (0: Limits.MaxRows) and at most
// Limits.MaxBytes but at least one, and whether there are more.
func (h *Handle) Events(ctx context.Context, after int64, limit int) (events []messages.StoredEvent, more bool, err error) {
	events, more, _, err = h.events(ctx, after, limit)
	return events, more, err
}

// EventsAt is Events that also returns the seq of the last event of the state that the page comes from.
func (h *Handle) EventsAt(ctx context.Context, after int64, limit int) (events []messages.StoredEvent, more bool, seq int64, err error) {
	return h.events(ctx, after, limit)
}

// Cut returns an image of the ledger that holds exactly the writes committed before it began. It
// works while draining. The copying happens on the caller's goroutine, while the ledger serves,
// through a temporary file beside the ledger; one Cut runs at a time. A ledger over
// Limits.MaxImageBytes is CodeTooLarge. A Cut changes nothing: it never fails with an unknown outcome.
func (h *Handle) Cut(ctx context.Context) (Image, error) {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	return h.cut(ctx)
}

// Drain lets everything that was queued before it finish and be acknowledged, and then refuses new
// work, reads too, with CodeDraining. It may be repeated.
func (h *Handle) Drain(ctx context.Context) error { return h.setDraining(ctx, true) }

// Undrain takes work again.
func (h *Handle) Undrain(ctx context.Context) error { return h.setDraining(ctx, false) }

func (h *Handle) setDraining(ctx context.Context, on bool) error {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	if h.ref == nil {
		return closedError(h.cfg.Key)
	}
	a := &drainAsk{ask: newAsk(ctx), on: on}
	if !h.ref.Send(a) {
		return closedError(h.cfg.Key)
	}
	return h.await(ctx, &a.ask)
}

// Version counts the transactions that changed the ledger since it was opened, its creation and
// migrations included. An Image with the same Version holds all of them.
func (h *Handle) Version() uint64 { return h.shared.version.Load() }

// Status returns the ledger's state. It never blocks.
func (h *Handle) Status() Status {
	s := Status{
		Draining: h.shared.draining.Load(), Queued: int(h.shared.queued.Load()),
		Requests: h.shared.taken.Load(), Readers: h.shared.readers.count(),
		LastSeq: h.shared.lastSeq.Load(), Events: h.shared.events.Load(), Version: h.Version(), Err: h.usable(),
	}
	select {
	case <-h.shared.opened:
		s.Open = s.Err == nil
	default:
	}
	return s
}
