package storetest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"
)

// Faults decides what goes wrong with the calls of one wrapper, FaultyLeases or FaultyDurable, which
// embed it. For each call the first that has something to say decides: an outage (Down, Freeze), the
// rules (Add, FailNext, …) in the order in which they were made, the function given to Program; else the call passes.
// Hooks and observers see every call, whatever happens to it.
type Faults struct {
	mu        sync.Mutex
	seq       uint64
	outage    *Action
	rules     []*rule
	program   func(Call) Action
	hooks     []*hook
	observers []func(Event)
	late      map[uint64]*lateCall
	running   int       // late effects that are taking place
	settled   sync.Cond // running has become 0
}

func (f *Faults) init() {
	f.late = map[uint64]*lateCall{}
	f.settled.L = &f.mu
}

type rule struct {
	matches func(Call) bool
	action  func(Call) Action
	left    int // how many more times; below 0: for ever
}

type hook struct {
	op     Op
	before func(context.Context, Call)
	after  func(context.Context, Call, Result)
	left   int
}

type lateCall struct {
	timer *time.Timer
	apply func()
}

// Program sets the function that decides on every call that no outage and no rule decides on; nil: such
// calls pass. It is called by the callers, concurrently if they are.
func (f *Faults) Program(fault func(Call) Action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.program = fault
}

// Observe adds a function that sees the phases of every call. It must not keep or change the data.
func (f *Faults) Observe(observer func(Event)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.observers = append(slices.Clone(f.observers), observer)
}

// Add adds a rule: the next times calls that match (below 0: all of them) get the action.
// The function that it returns removes the rule.
func (f *Faults) Add(matches func(Call) bool, times int, action func(Call) Action) (remove func()) {
	r := &rule{matches: matches, action: action, left: times}
	f.mu.Lock()
	defer f.mu.Unlock()
	if times != 0 {
		f.rules = append(f.rules, r)
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.rules = slices.DeleteFunc(f.rules, func(x *rule) bool { return x == r })
	}
}

// Clear removes the outage, the rules, the program and the hooks. Observers and late effects stay.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outage, f.rules, f.program, f.hooks = nil, nil, nil, nil
}

// decide numbers a call, and says what happens to it.
func (f *Faults) decide(call *Call) (action Action, before, after []*hook, observers []func(Event)) {
	f.mu.Lock()
	f.seq++
	call.Seq = f.seq
	for _, h := range f.hooks {
		if h.op != OpAny && h.op != call.Op {
			continue
		}
		if h.left > 0 {
			h.left--
		}
		if h.before != nil {
			before = append(before, h)
		} else {
			after = append(after, h)
		}
	}
	f.hooks = slices.DeleteFunc(f.hooks, func(h *hook) bool { return h.left == 0 })
	observers = f.observers
	decide := f.program
	if f.outage != nil {
		outage := *f.outage
		decide = func(Call) Action { return outage }
	} else if i := slices.IndexFunc(f.rules, func(r *rule) bool { return r.matches(*call) }); i >= 0 {
		decide = f.rules[i].action
		if f.rules[i].left--; f.rules[i].left == 0 {
			f.rules = slices.Delete(f.rules, i, i+1)
		}
	}
	f.mu.Unlock()
	if decide != nil {
		action = decide(*call) // without the lock: it may plan further faults
	}
	return action, before, after, observers
}

// do carries one call through. effect makes the real call with the arguments that it is given.
func (f *Faults) do(ctx context.Context, call Call, effect func(context.Context, Call) Result) Result {
	action, before, after, observers := f.decide(&call)
	observe := func(phase Phase, result Result) {
		for _, o := range observers {
			o(Event{Phase: phase, Call: call, Result: result})
		}
	}
	observe(Called, Result{})
	for _, h := range before {
		h.before(ctx, call)
	}
	result := f.carry(ctx, call, action, func(ctx context.Context, call Call) Result {
		r := effect(ctx, call)
		observe(Took, r)
		return r
	})
	observe(Answered, result)
	for _, h := range after {
		h.after(ctx, call, result)
	}
	return result
}

func (f *Faults) carry(ctx context.Context, call Call, action Action, effect func(context.Context, Call) Result) Result {
	if wait(ctx, action.Delay, action.Gate) != nil {
		return Result{Err: timedOut(ctx)}
	}
	result := Result{Err: orUnavailable(nil)}
	switch action.Effect {
	case EffectNow:
		result = effect(ctx, call)
	case EffectLate:
		// The caller may reuse its bytes once it has its answer.
		call.Data, call.Renewals = bytes.Clone(call.Data), slices.Clone(call.Renewals)
		detached := context.WithoutCancel(ctx)
		f.schedule(call.Seq, action.After, func() { effect(detached, call) })
	}
	if wait(ctx, action.AnswerDelay, nil) != nil {
		return Result{Err: timedOut(ctx)}
	}
	if action.Hang {
		<-ctx.Done()
		return Result{Err: timedOut(ctx)}
	}
	if action.Err != nil {
		return Result{Err: action.Err}
	}
	return result
}

func (f *Faults) schedule(seq uint64, after time.Duration, apply func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	late := &lateCall{apply: apply}
	f.late[seq] = late
	if after >= 0 {
		late.timer = time.AfterFunc(after, func() { f.release(seq) })
	}
}

// release lets one late effect take place, unless it already has or was dropped.
func (f *Faults) release(seq uint64) bool {
	f.mu.Lock()
	late, ok := f.late[seq]
	delete(f.late, seq)
	if ok {
		f.running++
	}
	f.mu.Unlock()
	if !ok {
		return false
	}
	if late.timer != nil {
		late.timer.Stop()
	}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.running--; f.running == 0 {
			f.settled.Broadcast()
		}
	}()
	late.apply()
	return true
}

// Late returns how many late effects have not taken place yet.
func (f *Faults) Late() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.late)
}

// ReleaseLate lets all late effects take place now, in the order of their calls, and returns how many.
func (f *Faults) ReleaseLate() int {
	f.mu.Lock()
	var seqs []uint64
	for seq := range f.late {
		seqs = append(seqs, seq)
	}
	f.mu.Unlock()
	slices.Sort(seqs)
	n := 0
	for _, seq := range seqs {
		if f.release(seq) {
			n++
		}
	}
	return n
}

// DropLate makes the late effects that have not begun never take place, waits for those that have
// begun, and returns how many were dropped. Call it at the end of a test, before the store is closed.
func (f *Faults) DropLate() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.late)
	for seq, late := range f.late {
		if late.timer != nil {
			late.timer.Stop()
		}
		delete(f.late, seq)
	}
	for f.running > 0 {
		f.settled.Wait()
	}
	return n
}
