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
// measure their windows with, from a note in the file: all processes compute it from the same reading, so they always agree;
// and it is never behind the newest time in the file. So a wall clock that is set, forward or back, and a machine that
// is suspended, neither end a lease before its holder knows, nor keep one for longer than its time to live.
//
// Where the system has no such clock (it is Linux's CLOCK_MONOTONIC, with the id of the boot and of the time namespace), or
// with a Now of one's own, a process counts with a clock that no other process has. So ONE PROCESS can use the file: [Open]
// refuses another one (CodeUnavailable) as long as the first one lives, which a lock on the file <path>-users tells.
//
// # Start here
//
// [Open] a store, and use it as a stores.LeaseStore. It also implements stores.BatchRenewer and
// stores.LeaseLister.
package sqlite
