// Package messages holds the plain types that every other package of Leasehold shares: tenant
// identities and lease keys, the lease record, positions and object names of a tenant's lineage,
// ledger events, lifecycle events, typed errors with stable codes, and the request and reply types
// of the wire protocol.
//
// It depends on nothing but the standard library, does no I/O and reads no clock. All types are
// values; every function is safe for concurrent use.
//
// A newcomer starts with [DeriveTenant] (who is served), [Lease] (who may serve), [Position]
// (what state is served) and [Error] (what went wrong).
package messages
