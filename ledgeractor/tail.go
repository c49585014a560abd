package ledgeractor

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// tail is what was acknowledged and is in no copy yet: how old the oldest of it is, and how much. It is shared: the actor
// adds to it, whoever publishes copies takes from it, and callers look at it before they send a write.
//
// It is kept in parts. A copy holds all of what was committed before its cut, so that one part for each cut is enough.
type tail struct {
	mu    sync.Mutex
	parts []tailPart // the oldest first
}

type tailPart struct {
	last  uint64    // the version of its newest commit
	since time.Time // when its oldest one was made
	bytes int64
	cut   bool // what is committed now is not in the copies that hold this
}

// maxTailParts bounds the parts. Where as many cuts have failed, the two oldest count as one, which a copy holds when it holds
// the later one.
const maxTailParts = 32

// add counts a commit in.
func (t *tail) add(version uint64, at time.Time, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.parts); n > 0 && !t.parts[n-1].cut {
		t.parts[n-1].last = version
		t.parts[n-1].bytes += bytes
		return
	}
	if len(t.parts) == maxTailParts {
		second := &t.parts[1]
		second.since = t.parts[0].since
		second.bytes += t.parts[0].bytes
		t.parts = t.parts[1:]
	}
	t.parts = append(t.parts, tailPart{last: version, since: at, bytes: bytes})
}

// cut ends a part.
func (t *tail) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.parts); n > 0 {
		t.parts[n-1].cut = true
	}
}

// saved takes out what a copy of this version holds.
func (t *tail) saved(version uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.parts) > 0 && t.parts[0].last <= version {
		t.parts = t.parts[1:]
	}
	if len(t.parts) == 0 {
		t.parts = nil // what is before the slice
	}
}

// oldest returns since when something is not saved (the zero Time: everything is), and how many bytes that are.
func (t *tail) oldest() (since time.Time, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, p := range t.parts {
		if i == 0 {
			since = p.since
		}
		bytes += p.bytes
	}
	return since, bytes
}

// unsavedRetry is when a caller that was refused because of the tail should come back.
const unsavedRetry = time.Second

// Saved says that a copy of this version (see Handle.Version) is where it survives the process.
func (h *Handle) Saved(version uint64) { h.shared.tail.saved(version) }

// Unsaved returns for how long the oldest acknowledged write has been in no copy, and how many bytes were written since: the sizes of
// events, as messages.Event.Size counts, and what application code gave to its writing statements. Zeros: everything is saved. It never
// blocks.
func (h *Handle) Unsaved() (age time.Duration, bytes int64) {
	since, bytes := h.shared.tail.oldest()
	if since.IsZero() {
		return 0, 0
	}
	return h.cfg.Now().Sub(since), bytes
}

// UnsavedLimit returns nil, or the error with CodeUnsavedLimit with which writes are refused at the moment. It never blocks.
func (h *Handle) UnsavedLimit() error { return h.shared.tail.limit(h.cfg, 0) }

// limit refuses a write where the tail has reached its bounds; more is what is being written beside it.
func (t *tail) limit(cfg Config, more int64) error {
	since, bytes := t.oldest()
	switch {
	case since.IsZero():
		return nil
	case cfg.MaxUnsaved > 0 && cfg.Now().Sub(since) >= cfg.MaxUnsaved:
	case cfg.MaxUnsavedBytes > 0 && bytes+more >= cfg.MaxUnsavedBytes:
	default:
		return nil
	}
	return &messages.Error{Code: messages.CodeUnsavedLimit, Key: cfg.Key.String(), RetryAfter: unsavedRetry,
		Message: "too much of what this ledger acknowledged is in no copy yet; nothing more is written until one has been made"}
}
