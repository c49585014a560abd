package storetest

import (
	"context"
	"sync"
	"time"
)

// is matches one operation, or all of them.
func is(op Op) func(Call) bool {
	return func(c Call) bool { return op == OpAny || c.Op == op }
}

func (f *Faults) setOutage(a *Action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outage = a
}

// Down makes every call fail at once with err (nil: CodeUnavailable) and without effect, until Up.
func (f *Faults) Down(err error) { a := Fail(err); f.setOutage(&a) }

// Freeze makes every call hang until its context ends, without effect, until Up. Calls that hang
// already are not freed by Up: their request was lost.
func (f *Faults) Freeze() { a := Hang(); f.setOutage(&a) }

// Up ends an outage.
func (f *Faults) Up() { f.setOutage(nil) }

// Next plans an action for the next call of op that no earlier plan takes.
func (f *Faults) Next(op Op, action Action) {
	f.Add(is(op), 1, func(Call) Action { return action })
}

// Every plans an action for all calls of op from now on; the function that it returns ends it.
func (f *Faults) Every(op Op, action Action) (remove func()) {
	return f.Add(is(op), -1, func(Call) Action { return action })
}

// FailNext makes the next call of op fail with err (nil: CodeUnavailable), without effect.
func (f *Faults) FailNext(op Op, err error) { f.Next(op, Fail(err)) }

// LoseNext lets the next call of op take effect, but its caller gets err (nil: CodeUnavailable).
func (f *Faults) LoseNext(op Op, err error) { f.Next(op, LoseAnswer(err)) }

// LateNext makes the next call of op fail at once, and take effect after d. Below 0: when ReleaseLate
// is called, or never.
func (f *Faults) LateNext(op Op, d time.Duration) { f.Next(op, FailLate(nil, d)) }

// HangNext makes the next call of op hang until its context ends, without effect.
func (f *Faults) HangNext(op Op) { f.Next(op, Hang()) }

// SlowNext holds the next call of op up for d before it takes effect.
func (f *Faults) SlowNext(op Op, d time.Duration) { f.Next(op, Delay(d)) }

// Slow holds every call of op up for d before it takes effect; the function that it returns ends it.
func (f *Faults) Slow(op Op, d time.Duration) (remove func()) { return f.Every(op, Delay(d)) }

// GateNext holds the next call of op up until open is called, or its context ends. reached is closed
// when the call has come.
func (f *Faults) GateNext(op Op) (reached <-chan struct{}, open func()) {
	came, gate := make(chan struct{}), make(chan struct{})
	f.Add(is(op), 1, func(Call) Action {
		close(came)
		return Action{Gate: gate}
	})
	return came, sync.OnceFunc(func() { close(gate) })
}

// Before runs hook before every call of op, in the caller's goroutine, whatever then happens to the
// call. It may use the store, this wrapper included, and plan faults.
func (f *Faults) Before(op Op, fn func(context.Context, Call)) {
	f.addHook(&hook{op: op, before: fn, left: -1})
}

// BeforeNext is Before for the next call of op only.
func (f *Faults) BeforeNext(op Op, fn func(context.Context, Call)) {
	f.addHook(&hook{op: op, before: fn, left: 1})
}

// After runs hook after every call of op, with the answer that its caller is about to get.
func (f *Faults) After(op Op, fn func(context.Context, Call, Result)) {
	f.addHook(&hook{op: op, after: fn, left: -1})
}

// AfterNext is After for the next call of op only.
func (f *Faults) AfterNext(op Op, fn func(context.Context, Call, Result)) {
	f.addHook(&hook{op: op, after: fn, left: 1})
}

func (f *Faults) addHook(h *hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks = append(f.hooks, h)
}
