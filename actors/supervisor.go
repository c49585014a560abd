package actors

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/actors/mailbox"
	"github.com/leasehold/leasehold/messages"
)

// Messages to the supervisor.
type (
	// find asks for the activation of a tenant; it is started if there is none.
	find struct {
		ctx   context.Context
		key   messages.Key
		reply chan found // buffered
	}
	// list asks for all activations.
	list     struct{ reply chan []*activation }
	shutdown struct {
		ctx   context.Context
		reply chan error // buffered
	}
	abortAll  struct{}
	handedOff struct {
		act *activation
		err error
	}
	sweepNow struct{}
	swept    struct{}
)

// found answers find: an activation that serves, or an error, or a channel to wait for before
// asking again.
type found struct {
	act  *activation
	wait <-chan struct{}
	err  error
}

// supervisor is the node's root actor: it knows which tenants have an actor, starts and evicts them,
// and ends them at shutdown.
type supervisor struct {
	node    *Node
	entries map[messages.Key]*activation
	byRef   map[*mailbox.Ref]*activation
	corrupt map[messages.Key]corruptOpen
	ending  *shutdown
	queue   []*activation // still to be handed off
	running int
	failed  []error
	victims []victim      // what to evict next, the least recently used first
	evicted []*activation // whose handoff was asked for to make room
	disk    diskWatch
}

// corruptPause is how long the failure of an open is repeated to callers before the copy is looked at
// again: each attempt costs an epoch and a download, and a damaged copy does not heal by itself.
const corruptPause = time.Second

// corruptOpen remembers an open that failed because a copy was at fault.
type corruptOpen struct {
	err   *messages.Error
	until int64 // by Node.sinceStart
}

func newSupervisor(n *Node) *supervisor {
	return &supervisor{node: n, entries: make(map[messages.Key]*activation), byRef: make(map[*mailbox.Ref]*activation),
		corrupt: make(map[messages.Key]corruptOpen)}
}

func (s *supervisor) Started(self *mailbox.Self) {
	self.After(s.node.cfg.SweepEvery, sweepNow{})
	self.Go(func(ctx context.Context) any { s.node.sweep(ctx, s.node.cfg.SetAsideFor); return nil })
}

func (s *supervisor) Receive(self *mailbox.Self, msg any) {
	switch m := msg.(type) {
	case find:
		s.find(self, m)
	case list:
		out := make([]*activation, 0, len(s.entries))
		for _, act := range s.entries {
			out = append(out, act)
		}
		slices.SortFunc(out, func(a, b *activation) int { return cmp.Compare(a.key.String(), b.key.String()) })
		m.reply <- out
	case mailbox.Terminated:
		if act := s.byRef[m.Ref]; act != nil {
			s.drop(act)
		}
	case shutdown:
		s.ending = &m
		for _, act := range s.entries {
			s.queue = append(s.queue, act)
		}
		s.handOffNext(self)
	case handedOff:
		s.running--
		if m.err != nil && messages.CodeOf(m.err) != messages.CodeClosed {
			e := *messages.AsError(m.err)
			e.Key = m.act.key.String()
			s.failed = append(s.failed, &e)
		}
		s.handOffNext(self)
	case abortAll:
		for _, act := range s.entries {
			act.ref.Send(abort{})
		}
	case suspectDisk, diskTick:
		s.look(self)
	case diskProbed:
		s.looked(self, m.err)
	case sweepNow:
		self.Go(func(ctx context.Context) any { s.node.sweep(ctx, s.node.cfg.SetAsideFor); return swept{} })
	case swept:
		self.After(s.node.cfg.SweepEvery, sweepNow{})
	}
}

func (s *supervisor) Refuse(_ *mailbox.Self, msg any) {
	down := &messages.Error{Code: messages.CodeInternal, Message: "the supervisor failed"}
	switch m := msg.(type) {
	case find:
		m.reply <- found{err: down}
	case list:
		m.reply <- nil
	case shutdown:
		m.reply <- down
	}
}

func (s *supervisor) Stopping(*mailbox.Self) {
	s.diskEnds()
	s.ended()
}

// ended answers the shutdown, once.
func (s *supervisor) ended() {
	if s.ending != nil && s.ending.reply != nil {
		s.ending.reply <- errors.Join(s.failed...)
		s.ending.reply = nil
	}
}

func (s *supervisor) find(self *mailbox.Self, m find) {
	if s.ending != nil || s.node.aborted.Load() {
		m.reply <- found{err: errNodeDown()}
		return
	}
	if act := s.entries[m.key]; act != nil && act.gone() {
		s.drop(act) // its Terminated is still on its way
	} else if act != nil {
		if !act.ref.Send(await{m}) {
			m.reply <- found{wait: act.ref.Done()}
		}
		return
	}
	if c, ok := s.corrupt[m.key]; ok {
		if left := time.Duration(c.until - s.node.sinceStart()); left > 0 {
			err := *c.err
			err.RetryAfter = left
			m.reply <- found{err: &err}
			return
		}
		delete(s.corrupt, m.key)
	}
	if s.node.disk.full.Load() != nil {
		s.awaitDisk(self, m)
		return
	}
	if len(s.entries) >= s.node.cfg.MaxOpen {
		s.purge()
	}
	if len(s.entries) >= s.node.cfg.MaxOpen {
		wait := s.makeRoom()
		if wait == nil {
			m.reply <- found{err: &messages.Error{Code: messages.CodeOverloaded, RetryAfter: time.Second, Key: m.key.String(),
				Message: "every open tenant of this node is busy"}}
			return
		}
		m.reply <- found{wait: wait}
		return
	}
	act := &activation{node: s.node, key: m.key}
	act.stops() // it does not serve yet
	act.used.Store(s.node.sinceStart())
	act.ref = self.Spawn(newTenant(s.node, act))
	s.entries[m.key], s.byRef[act.ref] = act, act
	s.node.active.Store(m.key, act)
	s.node.metrics.open.Set(float64(len(s.entries)))
	if !act.ref.Send(await{m}) {
		// It has failed and ended before this goroutine came back from Spawn.
		m.reply <- found{wait: act.ref.Done()}
	}
}

func (s *supervisor) drop(act *activation) {
	delete(s.byRef, act.ref)
	if err := act.corrupt.Load(); err != nil {
		maps.DeleteFunc(s.corrupt, func(_ messages.Key, c corruptOpen) bool { return c.until < s.node.sinceStart() })
		s.corrupt[act.key] = corruptOpen{err, s.node.sinceStart() + int64(corruptPause)}
	}
	if s.entries[act.key] == act {
		delete(s.entries, act.key)
		s.node.active.Delete(act.key)
	}
	s.node.metrics.open.Set(float64(len(s.entries)))
}

func (s *supervisor) handOffNext(self *mailbox.Self) {
	for s.running < s.node.cfg.HandoffParallel && len(s.queue) > 0 {
		act := s.queue[0]
		s.queue = s.queue[1:]
		s.running++
		ctx := s.ending.ctx
		self.Go(func(context.Context) any {
			return handedOff{act, act.handOff(ctx, reasonShutdown, "")}
		})
	}
	if s.running == 0 && len(s.queue) == 0 {
		s.ended()
		self.Stop()
	}
}
