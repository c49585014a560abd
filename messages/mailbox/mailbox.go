package mailbox

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/leasehold/leasehold/messages"
)

// Actor is the behaviour of one actor. All methods run on the actor's own goroutine, one at a time.
// None may block on the network; use Self.Go for that.
type Actor interface {
	// Started opens what the actor needs. It runs before the first message.
	Started(self *Self)
	// Receive handles a message, a Terminated of a child, or a result of Self.Go.
	Receive(self *Self, msg any)
	// Refuse answers a message that was taken but cannot be handled any more, because the actor
	// panicked. A message without a caller needs no answer.
	Refuse(self *Self, msg any)
	// Stopping closes what Started opened. It runs after the last message.
	Stopping(self *Self)
}

// Panicker is an Actor that handles its own panics. Panicked must answer msg's caller; it returns
// true if the actor's state is sound again, else the actor stops.
type Panicker interface {
	Panicked(self *Self, msg any, value any, stack []byte) (recovered bool)
}

// Terminated tells a parent that a child is gone.
type Terminated struct {
	Ref *Ref
	// Panicked is true if the child stopped because of a panic.
	Panicked bool
}

// System owns a set of actors. All methods are safe for concurrent use.
type System struct {
	lib    *actor.ActorSystem
	log    *slog.Logger
	work   sync.WaitGroup // goroutines of Self.Go
	mu     sync.Mutex
	roots  map[*Ref]struct{}
	closed bool
	once   sync.Once     // the stop begins once
	down   chan struct{} // closed when everything has ended

	// What is still running, for those who wait for its end in vain.
	actors, jobs atomic.Int64
}

// NewSystem returns a running system. The library's own logging is discarded: it would print whole
// messages, which may hold personal data.
func NewSystem(log *slog.Logger) *System {
	lib := actor.NewActorSystem(func(c *actor.Config) {
		c.LoggerFactory = func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }
	})
	return &System{lib: lib, log: log, roots: make(map[*Ref]struct{}), down: make(chan struct{})}
}

// Spawn starts an actor without a parent. After Shutdown it returns nil.
func (s *System) Spawn(a Actor) *Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	r := &Ref{system: s, done: make(chan struct{})}
	s.roots[r] = struct{}{}
	s.start(r, a, s.lib.Root.SpawnPrefix)
	return r
}

func (s *System) start(r *Ref, a Actor, spawn func(*actor.Props, string) *actor.PID) {
	ctx, cancel := context.WithCancel(context.Background())
	sh := &shell{actor: a, self: &Self{ref: r, ctx: ctx, cancel: cancel}}
	ready := make(chan struct{})
	s.actors.Add(1)
	// The mailbox may run Started before spawn has returned the PID; the actor must not see a Ref
	// that cannot be sent to.
	r.pid.Store(spawn(actor.PropsFromFunc(func(c actor.Context) { <-ready; sh.receive(c) }), "a"))
	close(ready)
}

// Go runs f on a goroutine that Shutdown waits for.
func (s *System) Go(f func()) {
	s.jobs.Add(1)
	s.work.Go(func() {
		defer s.jobs.Add(-1)
		f()
	})
}

// Shutdown stops every actor, waits for them and for the work they started, and ends the system. When
// ctx ends before that it returns CodeDeadlineExceeded or CodeCanceled, and says how much is still
// running: the rest goes on stopping, without anybody to wait for it. It may be called again, to wait
// once more.
func (s *System) Shutdown(ctx context.Context) error {
	s.once.Do(s.stop)
	select {
	case <-s.down:
		return nil
	case <-ctx.Done():
		e := *messages.AsError(ctx.Err())
		e.Message = fmt.Sprintf("still running: %d actors, %d pieces of background work", s.actors.Load(), s.jobs.Load())
		return &e
	}
}

// Running returns how many actors and pieces of background work have not ended.
func (s *System) Running() int64 { return s.actors.Load() + s.jobs.Load() }

func (s *System) stop() {
	s.mu.Lock()
	s.closed = true
	roots := make([]*Ref, 0, len(s.roots))
	for r := range s.roots {
		roots = append(roots, r)
	}
	s.mu.Unlock()
	for _, r := range roots {
		r.Stop()
	}
	go func() {
		for _, r := range roots {
			<-r.Done()
		}
		s.work.Wait()
		s.lib.Shutdown() // the library panics at a second one
		close(s.down)
	}()
}

// Ref is the address of one actor. All methods are safe for concurrent use.
type Ref struct {
	system *System
	pid    atomic.Pointer[actor.PID]
	gate   sync.RWMutex // held for reading while a message is put, so that the gate closes between messages
	shut   bool
	done   chan struct{}
	// panicked is written before done is closed.
	panicked bool
}

// Send puts msg into the mailbox and returns true, or returns false if the actor is stopping or
// gone. It never blocks for longer than the queueing takes. Messages of one sender keep their order.
func (r *Ref) Send(msg any) bool {
	r.gate.RLock()
	defer r.gate.RUnlock()
	if r.shut {
		return false
	}
	r.post(msg)
	return true
}

func (r *Ref) post(msg any) { r.system.lib.Root.Send(r.pid.Load(), msg) }

// Stop makes Send return false from now on. The actor handles what was taken before, stops its
// children, and ends. Stop does not wait: see Done.
func (r *Ref) Stop() {
	r.gate.Lock()
	defer r.gate.Unlock()
	if r.shut {
		return
	}
	r.shut = true
	r.post(stop{})
}

// Done is closed when the actor is gone and has closed its resources.
func (r *Ref) Done() <-chan struct{} { return r.done }

type stop struct{}

// Self is an actor's view of itself. Its methods may be called from the actor's own goroutine only,
// except Ref and Context.
type Self struct {
	ref      *Ref
	ctx      context.Context
	cancel   context.CancelFunc
	lib      actor.Context
	children map[string]*Ref
	timers   map[*timer]struct{}
	stopping bool // Stop has reached the head of the mailbox
	panicked bool
}

// Ref returns the actor's address.
func (s *Self) Ref() *Ref { return s.ref }

// Context is cancelled when the actor ends.
func (s *Self) Context() context.Context { return s.ctx }

// Spawn starts a child. The parent gets a Terminated when it is gone.
func (s *Self) Spawn(a Actor) *Ref {
	r := &Ref{system: s.ref.system, done: make(chan struct{})}
	r.system.start(r, a, s.lib.SpawnPrefix)
	if s.children == nil {
		s.children = make(map[string]*Ref)
	}
	s.children[r.pid.Load().Id] = r
	if s.stopping {
		r.Stop()
	}
	return r
}

// After sends msg to the actor itself after d, unless the returned function was called before or
// the actor has ended. The function may be called more than once.
func (s *Self) After(d time.Duration, msg any) (cancel func()) {
	if s.timers == nil {
		s.timers = make(map[*timer]struct{})
	}
	t := &timer{msg: msg}
	s.timers[t] = struct{}{}
	t.lib = time.AfterFunc(d, func() { s.ref.Send(t) })
	return func() {
		t.lib.Stop()
		delete(s.timers, t) // by this a timer that fired, but is still queued, is recognized
	}
}

// timer is sent to the actor when it fires; lib belongs to the actor's goroutine.
type timer struct {
	lib *time.Timer
	msg any
}

// Go runs work on a goroutine of its own and sends its result to the actor, which handles it like
// any message; a nil result is not sent. Self.Context ends the work when the actor ends. A panic in
// work stops the actor, as one in Receive would.
func (s *Self) Go(work func(ctx context.Context) any) {
	ref, ctx := s.ref, s.ctx
	ref.system.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				ref.system.log.Error("panic in background work", "value", v, "stack", string(debug.Stack()))
				ref.Send(crashed{})
			}
		}()
		if out := work(ctx); out != nil {
			ref.Send(out)
		}
	})
}

type crashed struct{}

// Stop ends the actor as Ref.Stop does.
func (s *Self) Stop() { s.ref.Stop() }
