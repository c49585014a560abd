// Package sqlite keeps leases in one SQLite file: the embedded default of Leasehold, for any number
// of processes on one machine.
//
// # Guarantees
//
// Every operation is one transaction that takes the write lock before it reads (BEGIN IMMEDIATE), so
// the store is linearizable across goroutines and processes. A granted operation is on the disk when
// it is answered (WAL, synchronous=FULL). The file must be on a local file system: SQLite's WAL needs
// shared memory between the processes that use it.
//
// The file defends itself. Triggers refuse an epoch that goes back or moves by more than one, a
// floor that goes down, an owner that changes within an epoch, a deleted or replaced record, and any
// change of the audit trail, which the triggers write themselves. [Open] refuses a file that lacks
// one of them.
//
// # The store's clock
//
// Time is milliseconds since 1970. A process reads the wall clock once, at Open, and from then on
// counts with its monotonic clock; and it is never behind the newest time that any process has
// recorded in the file. So a wall clock that is set back, or a machine that is suspended, neither
// ends a lease early nor keeps one for longer than its time to live: the store's clock runs on at the
// right rate. What is left is a wall clock that is set FORWARD before another process opens the file;
// the protocol assumes that such a jump is smaller than the margin of the lease holders.
//
// # Start here
//
// [Open] a store, and use it as a stores.LeaseStore. It also implements stores.BatchRenewer and
// stores.LeaseLister.
package sqlite
