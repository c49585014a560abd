// Package natsserver runs a NATS server with JetStream inside the process: what a node needs when it
// is to form a cluster with nothing installed, and what the tests of stores/nats run against.
//
// A server syncs every write to the disk before it acknowledges it (SyncAlways), which the promises of
// stores/nats rest on, and listens on the loopback interface only unless it is told otherwise. NATS
// without authentication and TLS trusts everybody who reaches its port: a server that is to listen
// anywhere else without knowing its clients, or the other members, is refused. What it knows them by is in an
// ordinary configuration file of nats-server ([Config].ConfigFile).
//
// # Members
//
// A cluster has a group of all its servers that assigns the streams, and it forms only while all of them are
// there. [Server.Join] waits for that; see there for what a restart waits for. To the others a member is its name
// ([KeptName]). [Server.Leave] hands over what the server leads before it stops: measured here with three
// servers, it takes 40 to 90 ms, during which writes through the others stall for 40 to 80 ms; a request that is in
// flight at the leader in that moment may lose its answer and has to be sent again. A leader that dies instead is missed
// after 4 to 9 s.
//
// # Start here
//
// [Start] runs one server. [StartCluster] runs several in this process, which is for tests; a node that
// is a member of a real cluster calls Start with ClusterName and Routes, and Join.
package natsserver
