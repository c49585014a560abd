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
