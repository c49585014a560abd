// Package natsserver runs a NATS server with JetStream inside the process: what a node needs when it
// is to form a cluster with nothing installed, and what the tests of stores/nats run against.
//
// A server syncs every write to the disk before it acknowledges it (SyncAlways), which the promises of
// stores/nats rest on, and listens on the loopback interface only unless it is told otherwise. NATS
// without authentication and TLS trusts everybody who reaches its port: before a server listens
// anywhere else, give it both, with [Config].Configure.
//
// # Start here
//
// [Start] runs one server. [StartCluster] runs several in this process, which is for tests; a node that
// is a member of a real cluster calls Start with ClusterName and Routes.
package natsserver
