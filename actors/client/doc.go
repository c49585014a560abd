// Package client is the Go client of a cluster of Leasehold: it carries requests to tenants, wherever their
// owner is at the moment, from outside the cluster or from inside a node's process. It imports neither
// SQLite nor a store nor a server: a program that uses it stays small.
//
// # Start here
//
// [Dial] connects to a cluster over NATS. [Client.Tenant] returns a handle on one tenant, and the handle does
// what actors.Tenant does on a node:
//
//	c, err := client.Dial(ctx, client.NATSConfig{Config: natsconn.Config{URL: "nats://host:4222"}})
//	defer c.Close()
//	tenant, err := c.Tenant("acme", id)
//	done, err := tenant.Append(ctx, messages.Event{Kind: "trip.logged", IdemKey: k, Payload: p})
//
// Give every append and every command an idempotency key (Event.IdemKey, [Tenant.CallOnce]): then a node
// that dies in the middle costs the caller time, and no doubt.
//
// # Where a request goes
//
// To the owner that is remembered; else any member is asked who that is or should be (messages.ActionLocate): it is not
// told what is to be done, and carries nothing out. Whoever is not the owner says who is (CodeNotOwner, CodeDraining), and
// the client goes there at once. There is no other view of the cluster in a client: it knows no members, reads no
// lease, and what it remembers may be wrong without harm.
//
// An owner that does not answer is avoided: the members are asked for another one (messages.Request.Avoid). One that
// only cannot be reached is given Config.LocateTimeout first. It may have lost its connection for a moment, as all do
// when NATS is started anew, and it alone can go on without losing anything.
//
// # What is sent again
//
// Until the deadline of the context, a request is sent again after every refusal that says that nothing was
// done and that it may be different in a moment: not delivered, not the owner, draining, held, overloaded,
// fenced, closed, unavailable. After a failure that leaves open whether it was carried out (no answer, a broken
// connection, CodeUnknownOutcome) only a request is sent again that may be: messages.Request.Repeatable. For
// any other one the caller gets CodeUnknownOutcome. A handoff, an abandon or a forget is not sent again once it
// may have begun. All other errors are the caller's at once.
//
// At the deadline the error is CodeUnknownOutcome if an attempt may have been carried out, else
// CodeDeadlineExceeded, whose Cause is the code of the last refusal: errors.Is(err, messages.ErrHeld) says that it
// failed because of a lease that had not ended yet.
//
// # What is hedged
//
// A request can vanish: the server that it is on ends, or its owner stands still, and nobody says so. So an attempt that is
// not answered within Config.HedgeAfter (longer where answers have taken longer lately) is hedged: any member is asked
// who the owner is, and the request is sent there a second time, while the first one is still waited for. The first success
// is the answer, and the other attempt is ended. These rules hold:
//
//   - Only what is Repeatable is sent a second time, and neither a snapshot nor a request of more than 64 KiB. A question
//     whom to ask carries nothing out, and is hedged whatever it is asked for.
//   - One request has one hedge at a time, within the deadline of the attempt.
//   - A refusal on the second way is no answer, nor is a success that comes from an older state than the caller has seen. A
//     refusal on the first way is not the answer while the second one is under way.
//   - Over time, one request in ten is hedged at most, and fifty at once. Not counted are questions about an owner that has
//     answered nothing since (eight at a time), and what is sent to another owner than the one that is waited for: they do
//     not burden one that is slow.
//
// Two copies that meet at the owner are carried out once. If the second comes later, the owner settles that by the key, and
// the answer may say Duplicate. [Client.Stats] counts what was hedged.
//
// # What a caller has seen
//
// A [Tenant] handle remembers the newest state that it was answered from and sends it along. It is never answered
// from an older one: an owner that does not have all of it refuses, and the client drops an answer
// that is older all the same. See [Tenant] for the one case in which this is an error: events that a crash took.
//
// # Permissions
//
// With accounts or users in NATS, a client needs no more than: publish to leasehold.<cluster>.request and
// leasehold.<cluster>.request.*, subscribe to its inboxes (_INBOX.>, or the prefix that it was given with
// nats.CustomInboxPrefix). See [Subjects].
package client
