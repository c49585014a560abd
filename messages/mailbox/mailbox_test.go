package mailbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type ask struct{ reply chan string }

// probe is an actor that records what happens to it.
type probe struct {
	mu       sync.Mutex
	log      []string
	onStart  func(*mailbox.Self)
	receive  func(*mailbox.Self, any)
	recover  bool
	stopping func()
}

func (p *probe) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

func (p *probe) notes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.log...)
}

func (p *probe) Started(s *mailbox.Self) {
	p.note("started")
	if p.onStart != nil {
		p.onStart(s)
	}
}

func (p *probe) Receive(s *mailbox.Self, msg any) {
	if p.receive != nil {
		p.receive(s, msg)
	}
}

func (p *probe) Refuse(_ *mailbox.Self, msg any) {
	if a, ok := msg.(ask); ok {
		a.reply <- "refused"
	}
}

func (p *probe) Stopping(*mailbox.Self) {
	if p.stopping != nil {
		p.stopping()
	}
	p.note("stopping")
}

func (p *probe) Panicked(_ *mailbox.Self, msg any, value any, _ []byte) bool {
	p.note("panicked: %v", value)
	if a, ok := msg.(ask); ok {
		a.reply <- "panicked"
	}
	return p.recover
}

func newSystem(t *testing.T) *mailbox.System {
	s := mailbox.NewSystem(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { require.NoError(t, s.Shutdown(context.Background())) })
	return s
}

func TestEveryTakenMessageIsAnswered(t *testing.T) {
	s := newSystem(t)
	ref := s.Spawn(&probe{receive: func(_ *mailbox.Self, msg any) { msg.(ask).reply <- "done" }})
	var taken, answered atomic.Int64
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for range 500 {
				a := ask{make(chan string, 1)}
				if !ref.Send(a) {
					return
				}
				taken.Add(1)
				<-a.reply // a lost message would hang here
				answered.Add(1)
			}
		})
	}
	for taken.Load() < 100 {
		// Stop in the middle of the traffic, not before it.
		a := ask{make(chan string, 1)}
		ref.Send(a)
		<-a.reply
	}
	ref.Stop()
	<-ref.Done()
	senders.Wait()
	require.Equal(t, taken.Load(), answered.Load())
	require.False(t, ref.Send(ask{}))
}

func TestPanicAnswersItsCallerAndCanRecover(t *testing.T) {
	s := newSystem(t)
	p := &probe{recover: true, receive: func(_ *mailbox.Self, msg any) {
		a, ok := msg.(ask)
		if !ok {
			panic("no ask")
		}
		a.reply <- "done"
	}}
	ref := s.Spawn(p)
	ref.Send("what is this?")
	a := ask{make(chan string, 1)}
	require.True(t, ref.Send(a))
	require.Equal(t, "done", <-a.reply)
	require.Contains(t, p.notes(), "panicked: no ask")
}

func TestPanicWithoutRecoveryStopsAndRefusesTheRest(t *testing.T) {
	s := newSystem(t)
	gate := make(chan struct{})
	p := &probe{receive: func(*mailbox.Self, any) { <-gate; panic("boom") }}
	ref := s.Spawn(p)
	first, second := ask{make(chan string, 1)}, ask{make(chan string, 1)}
	ref.Send(first)
	ref.Send(second)
	close(gate)
	require.Equal(t, "panicked", <-first.reply)
	require.Equal(t, "refused", <-second.reply)
	<-ref.Done()
	require.Equal(t, []string{"started", "panicked: boom", "stopping"}, p.notes())
}

func TestPanicsInLifecycleCallbacksEndTheActorOnce(t *testing.T) {
	s := newSystem(t)
	for name, p := range map[string]*probe{
		"started":  {onStart: func(*mailbox.Self) { panic("started") }},
		"stopping": {stopping: func() { panic("stopping") }},
	} {
		ref := s.Spawn(p)
		ref.Stop()
		<-ref.Done()
		starts := 0
		for _, n := range p.notes() {
			if n == "started" {
				starts++
			}
		}
		require.Equal(t, 1, starts, name)
	}
}

func TestChildrenStopBeforeTheirParent(t *testing.T) {
	s := newSystem(t)
	var order []string
	var mu sync.Mutex
	stopped := func(who string) func() {
		return func() { mu.Lock(); defer mu.Unlock(); order = append(order, who) }
	}
	gone := make(chan mailbox.Terminated, 1)
	parent := &probe{stopping: stopped("parent")}
	parent.onStart = func(self *mailbox.Self) {
		self.Spawn(&probe{stopping: stopped("child")})
		self.Spawn(&probe{onStart: func(*mailbox.Self) { panic("early") }})
	}
	parent.receive = func(_ *mailbox.Self, msg any) {
		if m, ok := msg.(mailbox.Terminated); ok {
			gone <- m
		}
	}
	ref := s.Spawn(parent)
	require.True(t, (<-gone).Panicked)
	ref.Stop()
	<-ref.Done()
	require.Equal(t, []string{"child", "parent"}, order)
}

func TestTimersAndWorkBelongToTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mailbox.NewSystem(slog.New(slog.DiscardHandler))
		p := &probe{}
		p.onStart = func(self *mailbox.Self) {
			self.After(time.Second, "tick")
			cancel := self.After(time.Second, "cancelled")
			cancel()
			self.After(time.Hour, "too late")
			self.Go(func(ctx context.Context) any { return "work" })
			self.Go(func(ctx context.Context) any { <-ctx.Done(); return nil })
		}
		p.receive = func(_ *mailbox.Self, msg any) { p.note("%v", msg) }
		ref := s.Spawn(p)
		time.Sleep(2 * time.Second)
		ref.Stop()
		<-ref.Done()
		require.Equal(t, []string{"started", "work", "tick", "stopping"}, p.notes())
		require.NoError(t, s.Shutdown(context.Background()))
		require.NoError(t, s.Shutdown(context.Background()), "a second shutdown is harmless")
		require.Nil(t, s.Spawn(p))
		time.Sleep(2 * time.Second) // the library's guards tick once
	})
}

func TestPanicInBackgroundWorkStopsTheActor(t *testing.T) {
	s := newSystem(t)
	ref := s.Spawn(&probe{onStart: func(self *mailbox.Self) {
		self.Go(func(context.Context) any { panic("work") })
	}})
	<-ref.Done()
}

func TestShutdownHonoursItsDeadlineAndSaysWhatRuns(t *testing.T) {
	s := newSystem(t)
	gate, busy := make(chan struct{}), make(chan struct{})
	defer close(gate) // the cleanup waits for the rest, which goes on stopping
	ref := s.Spawn(&probe{
		onStart: func(self *mailbox.Self) {
			self.Go(func(context.Context) any { <-gate; return nil }) // heeds no context
			self.Go(func(context.Context) any { <-gate; return nil })
		},
		receive: func(*mailbox.Self, any) { close(busy); <-gate },
	})
	ref.Send("block")
	<-busy
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 2 { // also of one who waits again
		err := s.Shutdown(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, messages.ErrCanceled)
		require.ErrorContains(t, err, "1 actors, 2 pieces of background work")
	}
	require.Nil(t, s.Spawn(&probe{}), "it stops all the same")
}

func ExampleSystem() {
	system := mailbox.NewSystem(slog.Default())
	ref := system.Spawn(&echo{})
	reply := make(chan string, 1)
	ref.Send(ask{reply})
	fmt.Println(<-reply)
	_ = system.Shutdown(context.Background())
	// Output: hello
}

type echo struct{}

func (echo) Started(*mailbox.Self)            {}
func (echo) Receive(_ *mailbox.Self, msg any) { msg.(ask).reply <- "hello" }
func (echo) Refuse(_ *mailbox.Self, msg any)  { msg.(ask).reply <- "refused" }
func (echo) Stopping(*mailbox.Self)           {}
