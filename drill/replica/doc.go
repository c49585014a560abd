// Package replica is one process of the drill: a real node (actors.Node) with its own state root, on the
// lease store and the durable store that all replicas share (package engine says which). It contends for every tenant, and
// while it owns one, writes numbered events into it as fast as its pace allows. It records each
// intent before, and each acknowledgement and refusal after the fact (package record).
//
// The drill steers it through its standard input, one command per line; when that ends, the replica
// exits at once. SIGTERM hands every tenant off while the writers go on.
package replica
