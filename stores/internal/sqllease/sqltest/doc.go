// Package sqltest holds the tests that every lease store on a database server has to pass against the real
// server, beside the suites of storetest: a server that dies, freezes, or loses its connections; statements
// of other programs that break the rules; the rights of a node's role; the number of round trips.
//
// A binding's test describes itself in a [Subject], and calls [Run].
package sqltest
