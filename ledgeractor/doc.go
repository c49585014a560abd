// Package ledgeractor runs the ledger of one tenant: an SQLite file with an append-only table
// "events" and whatever tables the application keeps beside it, owned by one actor.
//
// Four rules shape it:
//
//   - Nothing gets in while the lease is not provably held. A [Fence] is consulted before and after
//     each piece of work, at each step of an open row iterator, and by SQLite's own commit hook.
//   - An acknowledgement is given only after the commit, and only if the fence is still open then.
//     What was found fenced before the commit was refused; after it, its outcome is unknown.
//   - Writes that arrive together are committed together (group commit), but each fails alone.
//   - Reads run beside the writer, on read-only connections with limits on rows, bytes and time.
//
// A newcomer starts with [New], which makes the [Actor], and [Handle], which everybody else uses.
// Application code sees [Tx].
package ledgeractor
