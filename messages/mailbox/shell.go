package mailbox

import (
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
)

// shell runs an Actor inside the library's actor. It is the only code that the library calls.
//
// A stop takes three steps, so that nothing that was taken is lost: the gate of the Ref closes and
// the stop message is queued behind everything taken before; once it is reached, the children are
// stopped; when they are gone, Stopping runs and the library's actor ends.
type shell struct {
	actor Actor
	self  *Self
	ended bool
}

func (h *shell) receive(c actor.Context) {
	h.self.lib = c
	switch msg := c.Message().(type) {
	case *actor.Started:
		h.guard(nil, func() { h.actor.Started(h.self) })
	case *actor.Stopping, *actor.Restarting, *actor.Restart:
	case *actor.Stopped:
		h.gone()
	case *actor.Terminated:
		ref := h.self.children[msg.Who.Id]
		if ref == nil {
			return
		}
		delete(h.self.children, msg.Who.Id)
		if !h.self.stopping {
			h.guard(nil, func() { h.actor.Receive(h.self, Terminated{Ref: ref, Panicked: ref.panicked}) })
		}
		h.endIfDue()
	case stop:
		h.self.stopping = true
		for _, child := range h.self.children {
			child.Stop()
		}
		h.endIfDue()
	case crashed:
		h.self.panicked = true
		h.self.Stop()
	case *timer:
		if _, ok := h.self.timers[msg]; !ok {
			return
		}
		delete(h.self.timers, msg)
		h.deliver(msg.msg)
	default:
		h.deliver(msg)
	}
}

func (h *shell) deliver(msg any) {
	if h.self.panicked {
		h.guard(msg, func() { h.actor.Refuse(h.self, msg) })
		return
	}
	h.guard(msg, func() { h.actor.Receive(h.self, msg) })
}

// guard runs f; a panic ends the actor unless the actor says that it has recovered.
func (h *shell) guard(msg any, f func()) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		stack := debug.Stack()
		h.self.ref.system.log.Error("panic in actor", "value", v, "stack", string(stack))
		recovered := false
		if p, ok := h.actor.(Panicker); ok && !h.self.panicked {
			func() {
				defer func() {
					if v := recover(); v != nil {
						h.self.ref.system.log.Error("panic in panic handler", "value", v, "stack", string(debug.Stack()))
					}
				}()
				recovered = p.Panicked(h.self, msg, v, stack)
			}()
		}
		if !recovered {
			h.self.panicked = true
			h.self.Stop()
		}
	}()
	f()
}

func (h *shell) endIfDue() {
	if !h.self.stopping || len(h.self.children) > 0 || h.ended {
		return
	}
	h.ended = true
	h.guard(nil, func() { h.actor.Stopping(h.self) })
	h.self.cancel()
	for t := range h.self.timers {
		t.lib.Stop()
	}
	h.self.timers = nil
	h.self.lib.Stop(h.self.lib.Self())
}

func (h *shell) gone() {
	r := h.self.ref
	r.system.mu.Lock()
	delete(r.system.roots, r)
	r.system.mu.Unlock()
	r.panicked = h.self.panicked
	r.system.actors.Add(-1)
	close(r.done)
}
