package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/term"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
)

// Forget deletes every copy of a tenant. It takes the lease as a node does, so that it is refused
// while one serves the tenant; unlike a node it does not restore the ledger first, so that it works
// on a tenant whose copies are damaged.
type Forget struct {
	Common `embed:""`
	Key    string        `arg:"" help:"ORG/TENANT."`
	TTL    time.Duration `name:"ttl" default:"10s" help:"Time to live of the lease that is taken meanwhile." env:"-"`
	Yes    bool          `help:"Do not ask." env:"-"`
}

// forgotten is what was done.
type forgotten struct {
	Key     messages.Key `json:"key"`
	Floor   uint64       `json:"floor"`
	Objects int          `json:"objects"`
}

// Run implements the command. CodeDeploymentMismatch: the two stores do not belong together. CodeHeld: a node serves the tenant; nothing was done. CodeNotFound: it
// was never opened. After CodeUnavailable run it again: what was begun is finished then, or by the
// sweep of any node.
func (c *Forget) Run(ctx context.Context, env *Env) error {
	key, err := messages.ParseKey(c.Key)
	if err != nil {
		return err
	}
	return c.bound(ctx, env, func(leases storeurl.LeaseStore, durable storeurl.DurableStore) error {
		if _, err := known(ctx, leases, key); err != nil {
			return err
		}
		if err := c.confirm(env, key); err != nil {
			return err
		}
		host, _ := os.Hostname() // only a name in the audit trail
		holder, err := leaseactor.NewHolder(leaseactor.Config{
			Store: leases, Key: key, Owner: messages.NewOwner("forget@"+host, uuid.NewString()), TTL: c.TTL, Margin: (c.TTL / 4).Truncate(time.Millisecond),
			Spent: leaseactor.NewSpent(),
		})
		if err != nil {
			return err
		}
		if _, err := holder.Acquire(ctx); err != nil {
			return err
		}
		stop := renew(ctx, holder, c.TTL/5)
		out, err := c.forget(ctx, env, holder, durable)
		stop()
		// The command may have been interrupted; the next owner should not have to wait for that.
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.TTL)
		defer cancel()
		if err := errors.Join(err, holder.Release(release)); err != nil {
			return err
		}
		return c.print(env, out, func(w io.Writer) {
			fmt.Fprintf(w, "%s is forgotten up to epoch %d; %d objects deleted\n", key, out.Floor, out.Objects)
		})
	})
}

func (c *Forget) forget(ctx context.Context, env *Env, holder *leaseactor.Holder, durable storeurl.DurableStore) (forgotten, error) {
	out := forgotten{Key: holder.Lease().Key, Floor: holder.Lease().Epoch}
	// The floor before the first delete: from then on nothing of these epochs is restored (S6).
	if err := holder.MarkForgotten(ctx); err != nil {
		return out, err
	}
	names, err := durable.List(ctx, out.Key.Prefix())
	if err != nil {
		return out, err
	}
	bar := c.bar(env, "forgetting", objectsUnit)
	defer bar.finish()
	counted := countingDeletes{DurableStore: durable, bar: bar, total: int64(len(names))}
	owner := holder.Lease().Owner
	out.Objects, err = snapshotactor.DeleteForgotten(ctx, snapshotactor.Config{Store: &counted, Key: out.Key, Owner: owner}, out.Floor)
	return out, err
}

// countingDeletes shows how far the deletes are.
type countingDeletes struct {
	storeurl.DurableStore
	bar         *bar
	done, total int64
}

func (s *countingDeletes) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	n, err := s.DurableStore.DeletePrefix(ctx, prefix)
	s.done += int64(n)
	s.bar.set(s.done, s.total)
	return n, err
}

// renew keeps the lease until stop is called, which waits for the renewal in flight.
func renew(ctx context.Context, holder *leaseactor.Holder, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				// A failure shows in the next request, which the store refuses.
				_, _ = holder.Renew(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

// confirm asks at a terminal. A program that calls this has made up its mind.
func (c *Forget) confirm(env *Env, key messages.Key) error {
	in, ok := env.Stdin.(*os.File)
	if c.Yes || !ok || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	fmt.Fprintf(env.Stderr, "Delete every copy of %s, for good? Type yes: ", key)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "yes" {
		return &messages.Error{Code: messages.CodeInvalidArgument, Message: "not confirmed; nothing was done"}
	}
	return nil
}
