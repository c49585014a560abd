// Package mysql keeps leases in a MariaDB database: for nodes on many machines that have such a server
// already. It is tested on MariaDB 10.11. [Open] refuses servers that it is not written for: older ones,
// MySQL (its procedures have no FOR loops), and Galera clusters (their locks are each node's own).
//
// # Guarantees
//
// Every operation is one call of a procedure in the database, in one round trip: it locks the record, reads
// the database's clock, decides, and commits. So the store is linearizable across all nodes, and a
// granted operation has been flushed when it is answered. An answer that did not arrive whole is CodeUnavailable,
// never a guess; a deadlock, which the server has undone, is sent again.
//
// The database defends itself. Triggers refuse an epoch that goes back or moves by more than one, a floor
// that goes down, an owner that changes within an epoch, a deleted or replaced record, and any change of the
// audit trail, which the triggers write themselves; they hold for the tables' owner too, and without a strict
// sql_mode. A foreign key has the server refuse to truncate the records; nothing but rights protects the
// trail from TRUNCATE, and both from DROP or from a session without foreign_key_checks. [Open] refuses a schema
// that lacks a part, a table that is not InnoDB, a server that can lose what it has acknowledged
// (innodb_flush_log_at_trx_commit, sync_binlog, …) or changes values silently (sql_mode), and a replica; the
// settings are looked at again on every new connection.
//
// # The store's clock
//
// Time is SYSDATE(6) at UTC, in ms since 1970, read after the record is locked: it depends neither on the
// session's time zone nor on a timestamp that a session has set. For each key it never goes back. What is
// left is a server's clock that is set FORWARD, or a failover to a server whose clock is ahead: the protocol
// assumes that such a jump is smaller than the margin of the lease holders. A failover to a replica that
// lacks commits loses granted leases, which the protocol does not survive.
//
// # Rights
//
// One account owns the tables and opens the store with Config.Migrate once; the triggers and procedures run
// with its rights, so it must stay (ACCOUNT LOCK is fine). It needs, on the database of the store, SELECT,
// INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES, TRIGGER, CREATE ROUTINE, ALTER ROUTINE and
// EXECUTE. The nodes' account gets what [Grants] returns: it can call five procedures and look at the tables,
// and cannot write, delete or truncate anything.
//
// # Start here
//
// [Open] a store, and use it as a stores.LeaseStore. It also implements stores.BatchRenewer, with up to 500
// renewals in one round trip and one transaction, and stores.LeaseLister.
package mysql
