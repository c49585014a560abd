package replica

import (
	"context"
	"sync"

	"github.com/leasehold/leasehold/messages"
)

// gate stands between a node and a store. While it is held, calls wait in front of it, as they would for
// a store that cannot be reached, and none is under way behind it.
type gate struct {
	mu      sync.Mutex
	open    chan struct{} // closed while the gate is open
	inside  int
	drained chan struct{} // closed when the last call has left a held gate
}

func newGate() *gate {
	g := &gate{open: make(chan struct{}), drained: make(chan struct{})}
	close(g.open)
	return g
}

// enter waits until the gate is open, or returns CodeUnavailable when ctx ends first.
func (g *gate) enter(ctx context.Context) error {
	for {
		g.mu.Lock()
		open := g.open
		select {
		case <-open:
			g.inside++
			g.mu.Unlock()
			return nil
		default:
		}
		g.mu.Unlock()
		select {
		case <-open:
		case <-ctx.Done():
			return &messages.Error{Code: messages.CodeUnavailable, Message: "the drill holds the store back", Err: ctx.Err()}
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.settle()
}

// settle closes drained if the gate is held and nobody is inside. The caller has the lock.
func (g *gate) settle() {
	select {
	case <-g.open:
	default:
		if g.inside == 0 {
			select {
			case <-g.drained:
			default:
				close(g.drained)
			}
		}
	}
}

// hold closes the gate, and returns when no call is under way behind it.
func (g *gate) hold(ctx context.Context) error {
	g.mu.Lock()
	select {
	case <-g.open:
		g.open, g.drained = make(chan struct{}), make(chan struct{})
	default:
	}
	g.settle()
	drained := g.drained
	g.mu.Unlock()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release opens the gate.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}
