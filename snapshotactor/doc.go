// Package snapshotactor does the slow work of a tenant with the durable store: it restores and pins at
// an open, publishes snapshots while the tenant serves, deletes old copies, and forgets. It is where
// section S of the contract is kept.
//
// # The lineage
//
// Each epoch of a tenant has a folder in the durable store with three kinds of objects that matter here:
//
//	e00000003/base.json         the pin: the state that epoch 3 began with, such as epoch 2, snapshot 7
//	e00000003/snap-000001.db    an image: the ledger as it was at one moment
//	e00000003/snap-000001.json  its manifest, which promises the image and describes it
//
// Objects are put once and never changed. A new owner follows the pins, never "the newest object": the
// highest pinned epoch below its own is the head, the head's newest manifest (or, without one, what
// its pin names) is the state to begin with. Whatever a fenced holder uploads afterwards is in no
// pin's past, and therefore nowhere. Before a new owner pins, it puts seals into the slots that a
// paused predecessor would use next, so that the predecessor meets "already there" and fences itself.
//
// # Start here
//
// [Open], [Publisher], [Retain] and [DeleteForgotten] do the work and are plain functions of a Config; the
// restore algorithm itself is makePlan in plan.go, one pure function. [Actor] wraps them for a mailbox: its
// commands and reports are in commands.go. [Lineage], [VerifyAll] and [Fetch] are for tools.
//
// # Lost answers
//
// Every put is carried through by upload.land: an answer that was lost is settled by reading back. The
// same bytes are one's own success, none are put again, and others mean that somebody else is there.
//
// # Increments
//
// This version writes images only. It recognizes increments in a listing, seals the next one's slot,
// and refuses to open an epoch that goes on with increments (CodeInvalidArgument): to leave them out
// would lose what was acknowledged on their strength.
package snapshotactor
