// Package stores defines what Leasehold asks of the two stores that it stands on: a lease store
// (who may serve a tenant, and at which epoch) and a durable store (the copies of the ledgers).
//
// Bindings live in sub-packages (stores/sqlite, stores/dir, …), so that an application links only
// what it imports. A binding is right when it passes the conformance suites of stores/storetest.
package stores
