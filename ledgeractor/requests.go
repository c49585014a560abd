package ledgeractor

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Who decides about a request: its caller may give it up only while it waits, the actor may begin it
// only then. One compare-and-swap settles it, so that the two cannot disagree.
const (
	waiting int32 = iota
	begun
	abandoned
)

// overloadedRetry is when a caller that was turned away should come back.
const overloadedRetry = 50 * time.Millisecond

// ask is what every message with a caller has. The fields of the message that hold its result are
// written before done is, and read only after it.
type ask struct {
	ctx      context.Context
	state    atomic.Int32
	done     chan error // buffered: an answer never blocks
	answered bool       // the actor's
}

func newAsk(ctx context.Context) ask { return ask{ctx: ctx, done: make(chan error, 1)} }

// begin reports whether the actor may work on the request: its caller still waits.
func (a *ask) begin() bool { return a.state.CompareAndSwap(waiting, begun) }

// abandon reports whether the caller may go and be sure that nothing was done.
func (a *ask) abandon() bool { return a.state.CompareAndSwap(waiting, abandoned) }

// answer gives the caller its result. Only the first one counts.
func (a *ask) answer(err error) {
	if !a.answered {
		a.answered = true
		a.done <- err
	}
}

// request is a write: rows to append, or application code.
type request struct {
	ask
	rows     []eventRow
	code     func(tx *Tx) error
	call     *call // code is a command
	appended []messages.Appended
	err      error // of the member itself; it is told when the batch is decided
}

// flush ends the batch with this number.
type flush struct{ batch uint64 }

// drainAsk switches draining on or off.
type drainAsk struct {
	ask
	on bool
}

// cutAsk lets a connection's read transaction begin between two batches; where the ledger's files are lost, it makes the copy
// itself.
type cutAsk struct {
	ask
	last     bool // for a CutLast
	pin      func() error
	image    Image // its Version, and all of it if it was salvaged
	salvaged bool
}

// corrupted tells the actor that somebody met a corrupt page.
type corrupted struct{ err error }

// readersGone tells the actor that the last read has ended while reads are paused.
type readersGone struct{}

// evictReaders ends the reads that a checkpoint waits for, if it is still the same one that does; again, the checkpoint.
type evictReaders struct {
	pause uint64
	again bool
}

// watchReaders starts, and sweepReaders is, the look at the idle read connections.
type (
	watchReaders struct{}
	sweepReaders struct{}
)

// asker finds the ask in a message.
type asker interface{ asked() *ask }

func (a *ask) asked() *ask { return a }

// await returns the answer to a message that was sent, or a typed error when ctx is done first.
func (h *Handle) await(ctx context.Context, a *ask) error {
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		if a.abandon() {
			return h.gaveUp(ctx)
		}
	case <-h.ref.Done():
		if a.abandon() {
			return closedError(h.cfg.Key)
		}
	}
	select {
	case err := <-a.done:
		return err
	default:
	}
	if err := ctx.Err(); err != nil {
		return messages.Unknown(h.cfg.Key, h.cfg.Epoch, err)
	}
	return messages.Unknown(h.cfg.Key, h.cfg.Epoch, closedError(h.cfg.Key))
}

// gaveUp is the definite answer to a caller whose time was up before its work began.
func (h *Handle) gaveUp(ctx context.Context) error {
	err := *messages.AsError(ctx.Err())
	err.Key = h.cfg.Key.String()
	return &err
}

// write sends a request that counts against MaxQueued and waits for its answer.
func (h *Handle) write(ctx context.Context, r *request) error {
	if err := h.admit(ctx); err != nil {
		return err
	}
	if err := h.UnsavedLimit(); err != nil {
		return err
	}
	if h.shared.queued.Add(1) > int64(h.cfg.Limits.MaxQueued) {
		h.shared.queued.Add(-1)
		return h.overloaded()
	}
	if !h.ref.Send(r) {
		h.shared.queued.Add(-1)
		return closedError(h.cfg.Key)
	}
	h.shared.taken.Add(1)
	return h.await(ctx, &r.ask)
}

func (h *Handle) overloaded() error {
	return &messages.Error{Code: messages.CodeOverloaded, Key: h.cfg.Key.String(), Message: "too many requests wait for this ledger", RetryAfter: overloadedRetry}
}

// admit refuses at once what would be refused later.
func (h *Handle) admit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return h.gaveUp(ctx)
	}
	if insideTransaction(ctx, h.cfg.Path) {
		return invalid("the ledger was called from inside its own transaction; use the Tx")
	}
	if err := h.usable(); err != nil {
		return err
	}
	if err := fencedError(h.cfg.Key, h.cfg.Epoch, h.cfg.Fence.Check()); err != nil {
		return err
	}
	if h.shared.draining.Load() {
		return drainingError(h.cfg.Key)
	}
	return nil
}

// usable returns why the ledger takes no requests at all.
func (h *Handle) usable() error {
	if h.ref == nil || h.shared.closed.Load() {
		return closedError(h.cfg.Key)
	}
	if broken := h.shared.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

func drainingError(key messages.Key) error {
	return &messages.Error{Code: messages.CodeDraining, Key: key.String(), Message: "the ledger is being handed off"}
}

// deadline gives ctx the default deadline if it has none.
func (h *Handle) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, h.cfg.Limits.CallTimeout)
}
