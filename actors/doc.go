// Package actors is Leasehold's runtime: a node that serves tenants, each an actor that owns its
// ledger under a lease.
//
// [Start] a [Node]; its zero [Config] stands on the embedded defaults, a SQLite file as lease store
// and a directory as durable store. [Node.Tenant] opens a tenant and returns a handle, on which an
// application appends events, runs transactions, calls registered commands and queries:
//
//	node, err := actors.Start(ctx, actors.Config{})
//	tenant, err := node.Tenant(ctx, "acme", id)
//	done, err := tenant.Append(ctx, messages.Event{Kind: "trip.logged", IdemKey: k, Payload: p})
//
// # One tenant, one actor
//
// The tenant actor is a state machine: opening, serving, draining, closing, which package machine decides in full.
// Its mailbox carries orders (handoff, abandon, forget, snapshot), renewals, timers, and what its three children report: the
// lease child (leaseactor) talks to the lease store, the snapshot child (snapshotactor) to the durable
// store, and the ledger child (ledgeractor) owns the SQLite connection. The tenant never blocks, so a
// slow store or a long transaction never holds up a renewal, a drain or a fence.
//
// # What is promised
//
// An acknowledged append survives the process only once a snapshot holds it: a crash loses the tail
// after the last snapshot, no more, and a handoff loses nothing. docs/protocol.md has the rules,
// contract lines in brackets ([D1], [S2], …) name the tests that prove them.
package actors
