// Package loglimit keeps what strangers can cause from filling a log: a line that somebody outside can have written as often as
// he likes is written a few times a minute, and the rest is counted.
//
// A newcomer starts with [New].
package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// Burst is how many lines of one place in the code are written in a Period.
	Burst = 20
	// Period is the time after which they are written again.
	Period = time.Minute
)

// New returns a handler that writes to next, each place in the code Burst lines in a Period of the clock now. The first
// line after others were left out says how many, as the attribute "suppressed". It is safe for concurrent use.
func New(next slog.Handler, now func() time.Time) slog.Handler {
	return &handler{next: next, places: &places{now: now, of: make(map[place]*count)}}
}

// place is where a line comes from: the instruction that logs it. Texts do not count, since they may hold what a stranger sends.
type place struct {
	pc    uintptr
	level slog.Level
}

type count struct {
	begun            time.Time
	written, skipped int
}

// places are shared by all handlers that were derived from one.
type places struct {
	now func() time.Time

	mu sync.Mutex
	of map[place]*count // as many as there are places in the code
}

// admit reports whether a line is written, and how many were not before it.
func (p *places) admit(at place) (suppressed int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	c := p.of[at]
	if c == nil {
		c = &count{begun: now}
		p.of[at] = c
	}
	if now.Sub(c.begun) >= Period {
		c.begun, c.written = now, 0
	}
	if c.written >= Burst {
		c.skipped++
		return 0, false
	}
	c.written++
	suppressed, c.skipped = c.skipped, 0
	return suppressed, true
}

type handler struct {
	next   slog.Handler
	places *places
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	suppressed, ok := h.places.admit(place{r.PC, r.Level})
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return h.next.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.next.WithAttrs(attrs), h.places}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.next.WithGroup(name), h.places}
}
