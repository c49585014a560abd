package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/drill/verify"
)

// serverDown is how long a killed server is away before it is started again.
const serverDown = 300 * time.Millisecond

// serverStopped is how long a stopped server answers nothing: past every lease, so that each holder has to fence
// itself by its own clock, and the renewals that wait in the server's sockets come too late.
const serverStopped = replica.TTL + 300*time.Millisecond

// hitServer does a step to the server of a store. The step's tenant says which one, where there are two.
func (f *fleet) hitServer(ctx context.Context, p Planned) error {
	server := f.servers[p.Tenant%len(f.servers)]
	f.print("-- %s of the %s server", p.Step, server.Kind)
	away, down, back, begin := verify.OpServerKill, serverDown, verify.OpServerStart, server.Kill
	end := func() error { return server.Start(ctx) }
	if p.Step == ServerStop {
		away, down, back, begin, end = verify.OpServerStop, serverStopped, verify.OpServerCont, server.Pause, server.Resume
	}
	if err := f.actOn(server, away, begin); err != nil {
		return err
	}
	if err := sleep(ctx, down); err != nil {
		return err
	}
	if err := f.actOn(server, back, end); err != nil {
		return err
	}
	return f.recovered(ctx, fmt.Sprintf("with the %s server back", server.Kind))
}

// recovered waits until every tenant takes writes and is copied, from now on.
func (f *fleet) recovered(ctx context.Context, when string) error {
	since := record.Now()
	return f.await(ctx, f.limit, "every tenant takes writes and is copied, "+when, func() bool {
		for _, t := range f.tenants {
			if t.owner == nil || t.asked < since || t.cut < since {
				return false
			}
		}
		return true
	})
}

// actOn records and shows what the drill does to a server, then does it.
func (f *fleet) actOn(server *engine.Server, op string, do func() error) error {
	f.print(">> %-12s %s", strings.ToUpper(op), server.Kind)
	if err := f.log.Write(record.Line{Kind: record.Action, Op: op, Target: string(server.Kind)}); err != nil {
		return err
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s of the %s server: %w", op, server.Kind, err)
	}
	return nil
}
