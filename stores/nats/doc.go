// Package nats keeps leases and objects in NATS JetStream, for nodes on many machines: [Leases] is a lease
// store on a key-value bucket, [Objects] a durable store on a stream. Both work with one server (R1) and
// with three or five replicas (R3, R5), and need NATS server 2.15 or newer.
//
// # The lease protocol
//
// The messages of a key are its record and its audit trail at once, so the two cannot disagree. A message
// is a proposal: an operation, and the record that it was proposed upon. It is published with a
// compare-and-set on the sequence of that record's message (expected last sequence, for the filter of all of the key's
// subjects), so that the proposals of a key form one chain, whoever writes. Whether a proposal was granted is not
// written anywhere. It follows, for everybody alike, from the proposal and from the time at which the stream's leader
// stored it (one pure function, proposal.judge): an acquire is granted if that time is at or after the end of the lease
// before it, a renewal, release or forget if it is before that end and owner and epoch fit. A refused proposal
// changes nothing. The caller publishes, is told the sequence, and reads the message back to learn the time: two
// round trips, and three where the record is not known from an operation before.
//
// It is linearizable, and each operation takes effect when its proposal is committed: the chain has one order;
// what a proposal does depends on nothing but the chain up to it and its own time. There is no second
// step that a crash could leave out.
//
//   - A caller that dies after its publish has made a whole operation, and one that dies before it none.
//   - A lost acknowledgement: the message after the known sequence is read. If it is the caller's own (each proposal carries
//     a random nonce), it was stored; if it is another's, the compare-and-set sees to it that the caller's never will be; if there
//     is none, the same bytes are sent again, and at most one copy can be stored.
//   - A caller that gives up (CodeUnavailable) may have its proposal stored at any later time. It is then judged
//     by that time: a renewal that arrives after the end of the lease is refused.
//   - Whoever knows an old record, from its memory or from a server that does not know yet that it is no leader any more,
//     fails at the compare-and-set and reads again.
//
// Answers that write nothing need a proof that they are not old. A server that was the leader and does not know yet
// that it is not answers reads (measured here: after a freeze it served a record 184 epochs old), with direct gets off
// too. So with replicas a read is confirmed by a publish, to a subject of its own, that the leader takes only
// if the sequence just read is still the last one of the key, and commits by quorum only if it still
// leads. The time at which that one was stored is the store's "now" by which an acquire is refused as held. With one
// replica a read needs no proof. What can never change again (a higher epoch, another owner of the epoch, a
// lease that is over) is answered without.
//
// # The store's clock
//
// Time is that of the leader of the bucket, in nanoseconds. It never goes back for a key: the record carries the newest
// time that it has seen, and no proposal is judged at an earlier one. The callers' clocks are never asked. When the
// leadership changes, the time can step forward by as much as the clocks of the two servers differ; and a server's
// own clock can be set. The protocol needs that step to be SMALLER THAN THE MARGIN of the lease holders: run time
// synchronization on the servers (chrony, NTP: milliseconds) and slew instead of stepping. A step back only makes a lease
// last longer, by that step; a clock that ran far ahead for a while keeps the keys it has touched from expiring until
// the time is reached again.
//
// # What the engine refuses, and what it does not (B3)
//
// NATS has no triggers. What stands in for them:
//
//   - The bucket denies deletes, purges, rollups and message expiry; the server does not let these denials be taken
//     back. An old message that is sent again, or any stale compare-and-set, is refused.
//   - What is published without a condition, with a condition on anything else, or is not a proposal (`nats kv put`,
//     `nats kv del`), is stored and ignored: it has no part in the record. A key that was flooded until its record was
//     pushed out is refused as CodeCorrupt, and never begins at epoch 1 again.
//   - Every outcome comes from proposal.judge, which knows no way to lower an epoch or a floor, to move an epoch by
//     more than one, or to change an epoch's owner.
//
// What is left: somebody who may publish to the bucket, knows this format, and forges a proposal with the right condition upon
// a record that never was; and whoever may delete the stream. Only permissions keep these out: see [Permissions].
//
// # The audit trail
//
// History derives the entries from the messages. Renewals have a subject of their own, so that they never push a grant
// out: of each key the newest Config.KeepEntries grants (acquire, release, forget) are kept, and as many
// renewals. A refused proposal (a renewal that came too late) takes the place of an entry.
//
// # Objects
//
// An object that fits into one message is one compare-and-set: its manifest, with the bytes behind it. A larger one is cut into
// chunks under a random name, which nobody looks for; when all are acknowledged, the manifest is put, and makes the object
// visible at once and whole. Size and SHA-256 are checked by every Get. The stream itself refuses a second
// message under a name (one message per subject, discard new), so an object is never overwritten.
// Absence, and the completeness of a list, are confirmed as above. A delete removes the manifest by its
// sequence first, and then the chunks. What puts that were cut off have left is swept when it is older than
// Config.OrphanAge (24 h); a put gives up before its manifest when it has taken half of that. The declared limit:
// a process that is frozen just there for the other half leaves an object that Get reports as CodeCorrupt.
//
// # Durability
//
// A NATS server acknowledges before it syncs, unless it runs with `sync_interval: always`. A client cannot see that (nor
// can any command outside the system account), so a Config must say it: SyncAlways, or SeparateHosts with three
// replicas. What can be seen is checked at every start: storage, persist mode, limits that drop old records, direct
// reads, denials, replicas; a stream that breaks a promise is CodeCorrupt. With SyncAlways one server syncs every
// message of a batch on its own (about 0.3 ms for each here); replicas sync many at once.
//
// # Start here
//
// [OpenLeases] and [OpenObjects]. Package natsconn makes the connection, and package natsserver runs a server
// inside the process.
package nats
