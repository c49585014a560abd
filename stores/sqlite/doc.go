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
// Time is milliseconds since 1970. It starts with the wall clock of the first process after a boot of
// the machine, and from then on counts with the machine's monotonic clock, the one that lease holders
// measure their windows with; and it is never behind the newest time that any process has recorded in the
// file. So a wall clock that is set, forward or back, and a machine that is suspended, neither end a
// lease before its holder knows, nor keep one for much longer than its time to live.
//
// Where the system has no such clock (it is Linux's boot id and CLOCK_MONOTONIC), or with a Now of one's own, a
// process takes its start from Now at Open and counts with the differences of Now's readings. What is
// left then is a wall clock that is set FORWARD before another process opens the file; the protocol
// assumes that such a jump is smaller than the margin of the lease holders.
//
// # Start here
//
// [Open] a store, and use it as a stores.LeaseStore. It also implements stores.BatchRenewer and
// stores.LeaseLister.
package sqlite
