// Package natsconn connects to NATS servers the way every part of Leasehold does: with the same
// authentication, TLS and limits, and with a connection that comes back by itself for as long as it
// takes. The stores of package stores/nats, the members of a cluster and the client of an app use it.
//
// It knows subjects and streams of nobody, and imports package messages only: a program that needs no
// more than a connection links no store.
//
// What it promises about a connection:
//
//   - It is never given up: when all servers are away, it is tried again for ever, every 50 to 300 ms
//     (Close ends that).
//   - Nothing is sent late: while the connection is broken, a publish fails at once and is not kept for
//     later (ReconnectBufSize(-1)), when nobody waits for its answer any more.
//   - A server that is silent for 4 to 6 s is taken for gone (a ping every 2 s, two of them open): also where the
//     connection looks alive, because only the answers get lost. A holder is back before the window of a lease of
//     10 s (the default) has ended; on a line that needs longer for what is queued before a pong, set
//     Options to a longer interval.
//
// # Start here
//
// Fill in a [Config] and call [Config.Connect].
package natsconn
