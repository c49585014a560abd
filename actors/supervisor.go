package actors

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

// Messages to the supervisor.
type (
	// find asks for the activation of a tenant; it is started if there is none.
	find struct {
		ctx    context.Context
		key    messages.Key
		exists bool       // there is such a tenant, or it may be created; else the caller looks, and asks again
		reply  chan found // buffered
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
	failing failedOpens
	ending  *shutdown
	queue   []*activation // still to be handed off
	running int
	failed  []error
	victims []victim      // what to evict next, the least recently used first
	evicted []*activation // whose handoff was asked for to make room
	disk    diskWatch
}

// now is a channel to wait for nothing.
var now = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newSupervisor(n *Node) *supervisor {
	return &supervisor{node: n, entries: make(map[messages.Key]*activation), byRef: make(map[*mailbox.Ref]*activation),
		failing: make(failedOpens)}
}

func (s *supervisor) Started(self *mailbox.Self) {
	self.After(s.node.cfg.SweepEvery, sweepNow{})
	self.After(s.node.cfg.RenewEvery, checkStores{})
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
	case checkStores:
		self.Go(func(ctx context.Context) any { s.node.checkStores(ctx); return storesChecked{} })
	case storesChecked:
		self.After(s.node.cfg.RenewEvery, checkStores{})
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
		m.reply <- found{err: machine.NodeDown()}
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
	if !m.exists { // it has ended since the caller saw it
		m.reply <- found{wait: now}
		return
	}
	if err := s.node.alarms.stands(messages.CodeDeploymentMismatch, ""); err != nil {
		m.reply <- found{err: err} // whatever it would be granted, another node may serve
		return
	}
	before, left := s.failing.of(m.key, s.node.sinceStart())
	if left > 0 {
		s.node.stillFails(before)
		err := *before
		err.RetryAfter = left
		m.reply <- found{err: &err}
		return
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
	act := &activation{node: s.node, key: m.key, before: before}
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
	if err := act.failed.Load(); err != nil {
		s.failing.add(act.key, err, s.node.sinceStart())
	} else if act.opened.Load() {
		delete(s.failing, act.key)
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
			return handedOff{act, act.handOff(ctx, machine.Shutdown, "")}
		})
	}
	if s.running == 0 && len(s.queue) == 0 {
		s.ended()
		self.Stop()
	}
}
