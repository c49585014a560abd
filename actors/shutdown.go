package actors

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// stopPatience is how long a node that stops waits for the next of its actors to end, after its caller's time is over.
// They end at once, thousands in some seconds, unless something that cannot be interrupted keeps them: a disk or a store that
// hangs.
const (
	stopPatience     = 5 * time.Second
	looksPerPatience = 10
)

// Shutdown hands every open tenant off, in parallel and bounded, and stops the node. New opens are
// refused with CodeDraining from its start; an open tenant serves until its own handoff begins. A
// handoff, abandon or forget that is under way is waited for. It returns the tenants whose handoff failed, each
// as an *messages.Error with its key, joined; their leases end by themselves. When ctx ends before
// the handoffs have, the rest is abandoned as by Abort. A second call waits for the first.
//
// After ctx has ended it returns when nothing has ended for 5 s, at the latest; see Abort.
func (n *Node) Shutdown(ctx context.Context) error {
	if !n.stopping.CompareAndSwap(false, true) {
		select {
		case <-n.down:
			return nil
		case <-ctx.Done():
			return messages.AsError(ctx.Err())
		}
	}
	limit, cancel := n.patiently(ctx)
	defer cancel()
	reply := make(chan error, 1)
	if !n.supervisor.Send(shutdown{ctx: ctx, reply: reply}) { // it has failed, and its tenants ended with it
		reply <- &messages.Error{Code: messages.CodeInternal, Message: "the supervisor failed: nothing was handed off"}
	}
	var err error
	select {
	case err = <-reply:
	case <-limit.Done(): // not even the supervisor answers
		n.abortAll()
	}
	return errors.Join(err, n.stop(limit))
}

// Abort stops the node at once: nothing is flushed and no lease is released, as if the process had
// been killed. Every request in flight is answered with an error.
//
// When nothing has ended for 5 s (a disk that hangs, a store that heeds no deadline, code of the application in OnLifecycle)
// the rest is not waited for: the error is CodeDeadlineExceeded, and names the tenants that are still
// stopping. Nothing of them is acknowledged any more. They go on stopping by themselves; until they have, the node
// keeps its state root locked and Done open.
func (n *Node) Abort() error {
	now, cancelNow := context.WithCancel(context.Background())
	cancelNow()
	limit, cancel := n.patiently(now)
	defer cancel()
	first := n.stopping.CompareAndSwap(false, true)
	n.abortAll()
	if first {
		return n.stop(limit)
	}
	select {
	case <-n.down:
		return nil
	case <-limit.Done():
		return n.stillStopping(limit)
	}
}

func (n *Node) abortAll() {
	n.aborted.Store(true)
	n.supervisor.Send(abortAll{})
}

// patiently returns a context that ends after ctx, when nothing of the node has ended for stopPatience.
func (n *Node) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() {
		look := time.NewTicker(stopPatience / looksPerPatience)
		defer look.Stop()
		for before, idle := n.system.Running(), 0; idle < looksPerPatience; idle++ {
			select {
			case <-look.C:
			case <-out.Done():
				return
			}
			if running := n.system.Running(); running < before {
				before, idle = running, -1
			}
		}
		cancel(context.DeadlineExceeded)
	})
	return out, func() { unwatch(); cancel(context.Canceled) }
}

// stop ends the actors, and then what they use. It is called once.
func (n *Node) stop(limit context.Context) error {
	close(n.ended)
	n.kill()
	over := make(chan error, 1)
	go func() {
		err := errors.Join(n.system.Shutdown(context.Background()), n.close(false))
		n.cfg.Log.Info("node stopped", "owner", n.owner)
		over <- err
		close(n.down)
	}()
	select {
	case err := <-over:
		<-n.down
		return err
	case <-limit.Done():
		return n.stillStopping(limit)
	}
}

// stillStopping says what is left when nobody waits for it any more.
func (n *Node) stillStopping(limit context.Context) error {
	late := func(key, what string) error {
		return &messages.Error{Code: messages.CodeDeadlineExceeded, Key: key, Message: what}
	}
	var errs []error
	n.active.Range(func(_, act any) bool {
		if a := act.(*activation); !a.gone() {
			errs = append(errs, late(a.key.String(), "the tenant is still stopping"))
		}
		return true
	})
	what := "the stores of the node are still being closed"
	if err := n.system.Shutdown(limit); err != nil {
		what = "the node is still stopping: " + messages.AsError(err).Message
	}
	err := errors.Join(append(errs, late("", what))...)
	n.cfg.Log.Error("the node did not stop in time; it goes on stopping", "owner", n.owner, "error", err)
	return err
}

// Done is closed when the node has stopped.
func (n *Node) Done() <-chan struct{} { return n.down }
