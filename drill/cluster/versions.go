package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// upgrade restarts every node, one after the other, with the second version of the application. Once the first of them is there,
// the command that only it knows is called too, at every tenant in turn: whoever serves the tenant then.
func (d *drill) upgrade(ctx context.Context, f *Figure) error {
	return d.replace(ctx, f, "2", commandSign)
}

// rollback restarts them with the first version, to which the ledgers must still be readable.
func (d *drill) rollback(ctx context.Context, f *Figure) error {
	return d.replace(ctx, f, "1", commandNote)
}

func (d *drill) replace(ctx context.Context, f *Figure, version, command string) error {
	called, longest := 0, time.Duration(0)
	for i, n := range slices.Clone(d.nodes) {
		if err := n.stop(ctx); err != nil {
			return err
		}
		n.app = version
		if err := n.start(ctx); err != nil {
			return err
		}
		if err := d.members(ctx, len(d.nodes)); err != nil {
			return err
		}
		for _, a := range d.load.callEach(command, i, len(d.nodes)) {
			called++
			longest = max(longest, a.took())
			if a.err != nil {
				f.break_("tenant %d: %s failed while %d of %d nodes have version %s: %v", a.tenant, command, i+1, len(d.nodes), version, a.err)
			}
		}
	}
	f.say("%d calls of %q while the nodes went to version %s, the longest took %v", called, command, version, longest.Round(time.Millisecond))
	return d.spread(ctx)
}

// callEach calls a command at every n-th tenant, beginning with the first-th, some at a time, and waits for the answers.
func (l *load) callEach(command string, first, n int) []asked {
	var out []asked
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, 8)
	for tenant := first; tenant < len(l.keys); tenant += n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			a := l.ask(tenant, func(key string) messages.Request {
				return messages.Request{Action: messages.ActionCall, Command: command, IdemKey: key, Input: fmt.Appendf(nil, `{"key":%q}`, key)}
			})
			mu.Lock()
			defer mu.Unlock()
			out = append(out, a)
		})
	}
	group.Wait()
	return out
}
