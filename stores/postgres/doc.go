// Package postgres keeps leases in a PostgreSQL database: for nodes on many machines that have such a server
// already. It is tested on PostgreSQL 15.
//
// # Guarantees
//
// Every operation is one call of a function in the database, in one round trip: it locks the record, reads
// the database's clock, decides, and commits. So the store is linearizable across all nodes, and a
// granted operation has been flushed when it is answered. An answer that did not arrive whole is CodeUnavailable,
// never a guess; a deadlock or a serialization failure, which the server has undone, is sent again.
//
// The database defends itself. Triggers refuse an epoch that goes back or moves by more than one, a floor
// that goes down, an owner that changes within an epoch, a deleted or truncated record, and any change of the
// audit trail, which the triggers write themselves; they hold for the tables' owner too, and in sessions that
// replay a replication. [Open] refuses a schema that lacks one of them, a server that can lose what it has
// acknowledged (fsync, full_page_writes, synchronous_commit, unlogged tables), and a standby; the settings
// are looked at again on every new connection.
//
// # The store's clock
//
// Time is clock_timestamp(), in ms since 1970, read after the record is locked; it does not depend on time
// zones. For each key it never goes back. What is left is a server's clock that is set FORWARD, or a
// failover to a server whose clock is ahead: the protocol assumes that such a jump is smaller than the margin
// of the lease holders. A failover must not lose commits either: fail over to synchronous standbys only.
//
// # Rights
//
// One role owns the schema, and opens the store with Config.Migrate once, or at every start of an
// administrator's tool. The nodes' role gets what [Grants] returns: it can call three functions and look at
// the tables, and cannot write, delete or truncate anything.
//
// # Start here
//
// [Open] a store, and use it as a stores.LeaseStore. It also implements stores.BatchRenewer, with up to 500
// renewals in one round trip and one transaction, and stores.LeaseLister.
package postgres
