// Package mailbox is the thin layer between Leasehold and the protoactor-go actor library. No other
// package imports protoactor, and none sees its sharp edges:
//
//   - A message that [Ref.Send] took is always handled: by Receive, or by Refuse once the actor is
//     stopping. (Stop and Poison of the library drop queued messages silently.)
//   - A panic is caught at the message that caused it, which is handed to Panicked so that its
//     caller gets an answer. (The library loses the message and its caller waits out a timeout.)
//   - Resources are opened in Started and closed in Stopping, each called exactly once, on the
//     actor's own goroutine. (The library's producer runs on the spawner's goroutine, and a panic in
//     a lifecycle callback resurrects the actor or leaves a ghost.)
//   - Children stop before their parent, and [Ref.Done] is closed when an actor is really gone.
//   - Timers and background work belong to the actor and end with it.
//
// The model is that of Hewitt's actors: state belongs to one actor, and one message is handled at a
// time. Start with [NewSystem], [System.Spawn] and [Actor].
package mailbox
