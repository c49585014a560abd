package sim

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"time"
)

// process is the life of one process as its scheduler and its clock see it: it can be stopped for a
// while, and its clock can run slow, or lose the time in which it was stopped.
type process struct {
	mu     sync.Mutex
	start  time.Time
	rate   float64 // of the clock; 1: right
	lost   time.Duration
	thaw   chan struct{} // closed when it goes on; nil: it runs
	since  time.Time     // when it was stopped
	pauses time.Duration // how long the next commit is interrupted; 0: not
	dead   chan struct{} // closed when it was killed
	spans  []span        // in which it was stopped
}

// span is a time of the observer's clock; to is zero if it has not ended.
type span struct{ from, to time.Time }

// meets reports whether the span and the time between two instants have one in common.
func (s span) meets(from, to time.Time) bool {
	return !s.from.After(to) && (s.to.IsZero() || !s.to.Before(from))
}

func newProcess(rate float64) *process {
	return &process{start: time.Now(), rate: rate, dead: make(chan struct{})}
}

// Now is the node's clock. A stopped process reads no clock: whoever is about to judge the lease by
// it waits until the process goes on, and then reads.
func (p *process) Now() time.Time {
	if p.stopped() || p.pausesNext() {
		switch judges, inCommit := caller(); {
		case inCommit:
			t := p.read() // the fence is still open, and then …
			p.pauseInCommit()
			return t
		case judges:
			p.wait()
		}
	}
	return p.read()
}

func (p *process) read() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed := time.Since(p.start)
	if p.thaw != nil { // no time passes in a stopped process
		passed = p.since.Sub(p.start)
	}
	return p.start.Add(time.Duration(float64(passed)*p.rate) - p.lost)
}

// caller says whether the clock is read to judge the lease, and whether that is SQLite's commit hook.
// All other readings date or measure something after it was decided: held up, they would only blur
// when that was. A step of a transaction reads it under a lock that others wait for, which would
// stop the simulated time; it is not held up either.
func caller() (judges, inCommit bool) {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	locked := false
	for {
		f, more := frames.Next()
		judges = judges || strings.Contains(f.Function, "/leaseactor.")
		inCommit = inCommit || strings.HasSuffix(f.Function, ".mayCommit")
		locked = locked || strings.HasSuffix(f.Function, "(*guard).enter")
		if !more {
			return judges && !locked && !inCommit, inCommit && judges
		}
	}
}

func (p *process) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thaw != nil
}

func (p *process) pausesNext() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pauses > 0
}

// pauseInCommit interrupts the process between the last look at the fence and the commit.
func (p *process) pauseInCommit() {
	p.mu.Lock()
	d := p.pauses
	p.pauses = 0
	p.mu.Unlock()
	if d > 0 {
		p.stop()
		time.Sleep(d)
		p.resume(false)
	}
}

// stop stops the process, as SIGSTOP does.
func (p *process) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thaw == nil {
		p.thaw, p.since = make(chan struct{}), time.Now()
		p.spans = append(p.spans, span{from: p.since})
	}
}

// stopFor leaves a stopped process stopped until somebody wakes it, but no longer than d.
func (p *process) stopFor(ctx context.Context, d time.Duration) {
	p.mu.Lock()
	thaw := p.thaw
	p.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-thaw:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// resume lets it go on. A suspended machine's monotonic clock has not counted the time.
func (p *process) resume(suspended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thaw == nil {
		return
	}
	if suspended {
		p.lost += time.Duration(float64(time.Since(p.since)) * p.rate)
	}
	p.spans[len(p.spans)-1].to = time.Now()
	close(p.thaw)
	p.thaw = nil
}

// wait returns when the process runs, and whether it had to wait for that.
func (p *process) wait() (waited bool) {
	for {
		p.mu.Lock()
		thaw := p.thaw
		p.mu.Unlock()
		if thaw == nil {
			return waited
		}
		waited = true
		select {
		case <-thaw:
		case <-p.dead:
			return waited
		}
	}
}

// storeClock is the lease store's clock.
type storeClock struct {
	mu     sync.Mutex
	offset time.Duration
}

func (c *storeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Round(0).Add(c.offset) // without a monotonic part, so that a jump is one
}

func (c *storeClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}
