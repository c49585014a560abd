package cluster

import (
	"context"
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// Depart says goodbye once the node has stopped: nobody asks this member any more. It returns when no other
// member is about to leave, or with ctx: a node with a NATS server inside it keeps it running for those that are
// still handing their tenants off. When ctx ends first, it returns its typed error.
func (m *Member) Depart(ctx context.Context) error {
	m.setState(stateGone)
	wake(m.nudge) // it says so, now and with every heartbeat
	m.deafen(m.subs.any, m.subs.own, m.subs.moves)
	for {
		waiting := slices.ContainsFunc(m.Members(), func(i Info) bool { return i.Owner != m.self && i.State == StateLeaving })
		if !waiting {
			return nil
		}
		if !sleep(ctx, m.cfg.HeartbeatEvery/4) {
			return messages.AsError(ctx.Err())
		}
	}
}

// desert ends the requests that came in on this member when it has departed and nobody is left who could carry them
// out. Else they would wait for their deadlines, and the end of the process for them.
func (m *Member) desert(all []Info) {
	serves := func(i Info) bool { return i.State == StateServing || i.State == StateFull }
	if *m.state.Load() == stateGone && !slices.ContainsFunc(all, serves) {
		_ = m.client.Close() // which opened nothing, so that nothing can fail
	}
}
