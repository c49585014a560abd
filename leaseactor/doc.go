// Package leaseactor is the right of one node to serve one tenant: the session of a lease holder
// (contract section D; docs/protocol.md, "Lease") and the actor that keeps it.
//
//   - [Fence] says whether the lease is provably held at this instant. It is one atomic deadline on
//     the holder's own monotonic clock. Everything that acknowledges work asks it, before and after.
//   - [Holder] is one session: it acquires, renews, forgets and releases, one request at a time, and
//     is the only one that moves the fence's deadline.
//   - [Actor] runs a Holder in the background of a mailbox actor, so that nobody waits for a store.
//   - [Spent] is a node's memory across its sessions: of the epochs that it has given up and must
//     never serve again, and of which session has the newest one.
//
// # The rules
//
// The window in which the holder may acknowledge runs from the moment a request was sent to that
// request's own answer, for ttl − margin. The store counts the ttl from a later moment, when the
// request took effect, so the window ends at least a margin before the lease does. A request whose
// answer was lost opens nothing. An acquire whose answer was lost is read back, and what is found is
// adopted by renewing it. Once a release or a MarkForgotten was sent, that epoch never serves again,
// whatever became of the answer.
//
// A node's sessions for one key follow each other. The next one may find a lease that this process
// still holds, because an actor crashed; it adopts it, and closes the fence of the one before.
//
// The leases (Gray and Cheriton, "Leases: an efficient fault-tolerant mechanism for distributed file
// cache consistency", 1989) assume that the clocks of holder and store run at the same rate, up to
// the margin. A process that is suspended together with its monotonic clock (D6) is caught by the
// store and by the lineage, not here.
//
// # Start here
//
// The example of [Holder] is a whole life of a session; a node uses [New].
package leaseactor
