package storetest

import (
	"context"
	"sync"
	"time"
)

// ManualClock is a clock that stands still until it is told to move. Its readings carry no monotonic
// part, so Set can move it backwards, as a wall clock can be.
type ManualClock struct {
	mu sync.Mutex
	t  time.Time
}

// NewManualClock returns a clock that stands at start.
func NewManualClock(start time.Time) *ManualClock { return &ManualClock{t: start.Round(0)} }

// Now returns the time at which the clock stands. Pass the method as a Now field.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

// Advance moves the clock by d and returns the new time.
func (c *ManualClock) Advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
	return c.t
}

// Set moves the clock to t, forwards or backwards.
func (c *ManualClock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t.Round(0)
}

// Pass implements Clock: it advances at once.
func (c *ManualClock) Pass(ctx context.Context, d time.Duration) error {
	c.Advance(d)
	return ctx.Err()
}

// RealTime is the Clock of a store that runs on real time (or, in a synctest bubble, on virtual time).
type RealTime struct{}

// Pass implements Clock: it waits.
func (RealTime) Pass(ctx context.Context, d time.Duration) error { return wait(ctx, d, nil) }

// TrippingClock passes the readings of another clock on, and trips at readings that a test names: the
// way to put an event exactly between two steps of code that reads its clock in between.
type TrippingClock struct {
	now func() time.Time

	mu     sync.Mutex
	reads  int
	offset time.Duration
	trips  map[int][]func()
}

// NewTrippingClock returns a clock that reads now.
func NewTrippingClock(now func() time.Time) *TrippingClock {
	return &TrippingClock{now: now, trips: map[int][]func(){}}
}

// Now counts the reading, runs what is to happen at it, and then reads the other clock.
func (c *TrippingClock) Now() time.Time {
	c.mu.Lock()
	c.reads++
	trips := c.trips[c.reads]
	delete(c.trips, c.reads)
	c.mu.Unlock()
	for _, trip := range trips {
		trip() // without the lock: a hook may read this clock, or plan the next trip
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now().Add(c.offset)
}

// Reads returns how many readings there were.
func (c *TrippingClock) Reads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

// TripAt runs hook at the n-th reading from now on (1 is the next one), before it is taken.
func (c *TrippingClock) TripAt(n int, hook func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trips[c.reads+n] = append(c.trips[c.reads+n], hook)
}

// JumpAt makes the n-th reading from now on, and all after it, later by d (earlier, if d is negative).
func (c *TrippingClock) JumpAt(n int, d time.Duration) {
	c.TripAt(n, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.offset += d
	})
}

// wait returns when d is over and gate, if there is one, is closed; or when ctx ends.
func wait(ctx context.Context, d time.Duration, gate <-chan struct{}) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
