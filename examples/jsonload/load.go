package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Ledger is what the loader needs of a tenant: an *actors.Tenant, or a Client.
type Ledger interface {
	// AppendAt appends events, all or none, and returns the epoch that acknowledged them.
	AppendAt(ctx context.Context, events []messages.Event) ([]messages.Appended, uint64, error)
	// Snapshot publishes a snapshot of everything that was acknowledged.
	Snapshot(ctx context.Context) (messages.Manifest, error)
}

// Batches stay well below the limits of an append and of a request's body.
const (
	maxBatchBytes = 4 << 20
	maxPasses     = 5
)

// Loader appends a file of events to a ledger. A load that was interrupted is simply done again.
type Loader struct {
	Ledger Ledger
	// Batch is how many events go into one append: 1 to messages.MaxBatchEvents.
	Batch int
	// Patience is how long an append is tried again while the node is away.
	Patience time.Duration
	// Bad is told of each line that is no event, once.
	Bad func(number int, why string)
	// Progress is told how many bytes of the file are done, from 0 in each pass.
	Progress func(bytes int64)
}

// Summary says what a load did.
type Summary struct {
	Events int // that are in the ledger now
	There  int // of them, were there before
	Bad    int // lines that are no events
	Saved  messages.Position
}

// Load appends every event that open's file holds, and ends with a snapshot, so that all of them are
// in the durable store. If the ledger has changed hands meanwhile, a crash may have lost what was
// acknowledged before: then the whole file is gone through again. The keys see to it that nothing is
// appended twice.
func (l Loader) Load(ctx context.Context, source string, open func() (io.ReadCloser, error)) (Summary, error) {
	var first Summary
	for pass := range maxPasses {
		sum, epoch, err := l.pass(ctx, source, open, pass == 0)
		if pass == 0 {
			first = sum
		}
		first.Events = sum.Events
		if err != nil {
			return first, err
		}
		m, err := patiently(ctx, l.Patience, func() (messages.Manifest, error) { return l.Ledger.Snapshot(ctx) })
		if err != nil {
			return first, fmt.Errorf("snapshot: %w", err)
		}
		if epoch == 0 || epoch == m.Epoch {
			first.Saved = messages.Position{Epoch: m.Epoch, Snapshot: m.Snapshot}
			return first, nil
		}
	}
	return first, errors.New("the ledger changed hands in every pass; load again later")
}

// pass goes through the file once. epoch is the one that acknowledged everything, 0 if nothing was
// appended; a pass in which it changed returns one that no snapshot has.
func (l Loader) pass(ctx context.Context, source string, open func() (io.ReadCloser, error), report bool) (sum Summary, epoch uint64, err error) {
	file, err := open()
	if err != nil {
		return sum, 0, err
	}
	defer func() { _ = file.Close() }() // it is only read
	const changed = 1<<64 - 1
	var batch []messages.Event
	var numbers []int
	var size, done int64
	bad := func(number int, why string) {
		if sum.Bad++; report {
			l.Bad(number, why)
		}
	}
	flush := func() error {
		err := l.send(ctx, batch, numbers, bad, func(out []messages.Appended, at uint64) {
			if epoch == 0 {
				epoch = at
			} else if epoch != at {
				epoch = changed
			}
			for _, a := range out {
				if sum.Events++; a.Duplicate {
					sum.There++
				}
			}
		})
		batch, numbers, size = nil, nil, 0
		l.Progress(done)
		return err
	}
	for r := NewReader(source, file); ; {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return sum, epoch, flush()
		}
		if err != nil {
			return sum, epoch, err
		}
		if line.Bad != "" {
			bad(line.Number, line.Bad)
			done += line.Bytes
			continue
		}
		if len(batch) == l.Batch || size+line.Bytes > maxBatchBytes {
			if err := flush(); err != nil {
				return sum, epoch, err
			}
		}
		batch, numbers = append(batch, line.Event), append(numbers, line.Number)
		size, done = size+line.Bytes, done+line.Bytes
	}
}

// send appends one batch. One that is refused for what it holds is cut in half, until the line at
// fault stands alone.
func (l Loader) send(ctx context.Context, batch []messages.Event, numbers []int, bad func(int, string), acknowledged func([]messages.Appended, uint64)) error {
	if len(batch) == 0 {
		return nil
	}
	var epoch uint64
	out, err := patiently(ctx, l.Patience, func() (out []messages.Appended, err error) {
		out, epoch, err = l.Ledger.AppendAt(ctx, batch)
		return out, err
	})
	switch code := messages.CodeOf(err); {
	case err == nil && len(out) == len(batch):
		acknowledged(out, epoch)
		return nil
	case err == nil:
		return fmt.Errorf("the node answered %d of %d events", len(out), len(batch))
	case code != messages.CodeInvalidArgument && code != messages.CodeTooLarge:
		return fmt.Errorf("lines %d to %d: %w", numbers[0], numbers[len(numbers)-1], err)
	case len(batch) == 1:
		bad(numbers[0], messages.AsError(err).Message)
		return nil
	}
	half := len(batch) / 2
	if err := l.send(ctx, batch[:half], numbers[:half], bad, acknowledged); err != nil {
		return err
	}
	return l.send(ctx, batch[half:], numbers[half:], bad, acknowledged)
}

// patiently repeats an operation that may be repeated, while the node is away and ctx lasts.
func patiently[T any](ctx context.Context, patience time.Duration, op func() (T, error)) (T, error) {
	begun := time.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		out, err := op()
		if err == nil || !retryable(messages.CodeOf(err)) || time.Since(begun) > patience {
			return out, err
		}
		select {
		case <-time.After(max(wait, messages.AsError(err).RetryAfter)):
		case <-ctx.Done():
			return out, err
		}
	}
}

func retryable(code messages.Code) bool {
	switch code {
	case messages.CodeHeld, messages.CodeUnavailable, messages.CodeFenced, messages.CodeUnknownOutcome, messages.CodeDraining,
		messages.CodeOverloaded, messages.CodeUnsavedLimit, messages.CodeClosed, messages.CodeNotOwner:
		return true
	}
	return false
}
