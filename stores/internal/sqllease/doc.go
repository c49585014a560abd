// Package sqllease is what the lease stores on database servers (stores/postgres, stores/mysql) have in
// common. The rules of a lease run inside the database, in functions that its owner defines, at one reading
// of the database's own clock; this package validates, calls them in one round trip, and gives their
// verdicts and the failures of connections the types that every LeaseStore has.
//
// Start with [Store], which implements the interfaces of package stores, and [Dialect], what a binding brings.
package sqllease
