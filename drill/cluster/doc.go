// Package cluster is the drill of a cluster: real node processes (cmd/node) that are members over NATS, an app
// client that appends to hundreds of tenants at a steady rate, and steps that hurt them: a rolling restart of all
// nodes, a rolling upgrade of the application and a rollback, a node that joins, one that leaves, kill -9, a freeze, and the engine gone for three TTLs.
//
// Every request has an idempotency key and is recorded with its answer. At the end the ledgers are read back
// through the cluster, the audit trail is read from the lease store, and the nodes' own logs are
// read: the verdict says for each step what was asked, what failed, how long the longest gap was, and whether
// anything was lost, doubled, or had two owners.
package cluster
