package leaseactor

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// never is the deadline of a fence that was not opened yet.
const never = math.MinInt64

// Fence says whether work may be acknowledged at this instant. It is open before its deadline, closed
// at and after it (a renewal at the same epoch opens it again), and closed for ever once it was
// closed with a reason. Only the Holder that made it moves the deadline. All methods are safe for
// concurrent use; none waits.
type Fence struct {
	now  func() time.Time // nil: time.Since, which reads the monotonic clock only and is twice as fast
	born time.Time
	// deadline is in ns after born. Differences of one process's readings are monotonic.
	deadline atomic.Int64
	reason   atomic.Pointer[string] // why it is closed for ever
	lease    atomic.Pointer[fenced] // whose fence it is, once that is known
	// ignoreDeadline is planted.NoSelfFence.
	ignoreDeadline bool
}

type fenced struct {
	key   messages.Key
	epoch uint64
}

// NewFence returns a closed fence on a clock (nil: time.Now).
func NewFence(now func() time.Time) *Fence {
	f := &Fence{now: now, born: time.Now()}
	if now != nil {
		f.born = now()
	}
	f.deadline.Store(never)
	return f
}

// Check returns nil while the fence is open, else a *messages.Error with CodeFenced, the Key, the
// Epoch and the Reason. It takes no lock, and allocates nothing when the fence is open.
func (f *Fence) Check() error {
	if f.Open() {
		return nil
	}
	return f.err()
}

// Open reports whether Check would return nil.
func (f *Fence) Open() bool {
	if f.reason.Load() != nil {
		return false
	}
	if f.ignoreDeadline {
		return f.deadline.Load() != never
	}
	// At the deadline it is closed (D1).
	return int64(f.elapsed()) < f.deadline.Load()
}

func (f *Fence) elapsed() time.Duration {
	if f.now == nil {
		return time.Since(f.born)
	}
	return f.now().Sub(f.born)
}

func (f *Fence) err() error {
	e := &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonExpiredLocally, Message: "the lease is not provably held"}
	if r := f.reason.Load(); r != nil {
		e.Reason = *r
	}
	if l := f.lease.Load(); l != nil {
		e.Key, e.Epoch = l.key.String(), l.epoch
	}
	return e
}

// Close closes the fence for ever, for one of the messages.Reason constants. The first reason stays.
func (f *Fence) Close(reason string) { f.reason.CompareAndSwap(nil, &reason) }

// Reason returns why the fence is closed for ever, or "" if it is not.
func (f *Fence) Reason() string {
	if r := f.reason.Load(); r != nil {
		return *r
	}
	return ""
}

// Deadline returns when the fence closes by itself, on the holder's clock; the zero time if it was
// never opened. It says nothing about Close: see Open.
func (f *Fence) Deadline() time.Time {
	if d := f.deadline.Load(); d != never {
		return f.born.Add(time.Duration(d))
	}
	return time.Time{}
}

// extend moves the deadline forward to t; it never takes back what was given before.
func (f *Fence) extend(t time.Time) {
	d := int64(t.Sub(f.born))
	for {
		old := f.deadline.Load()
		if d <= old || f.deadline.CompareAndSwap(old, d) {
			return
		}
	}
}

// reopen undoes Close(reason): planted faults only.
func (f *Fence) reopen(reason string) {
	if r := f.reason.Load(); r != nil && *r == reason {
		f.reason.CompareAndSwap(r, nil)
	}
}
