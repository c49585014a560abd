// Package sizing holds the tests of what a node with many open tenants costs its lease store: real nodes on
// real servers, with the figures printed.
//
//	go test -v ./stores/sizing            5,000 open tenants
//	go test -v -short ./stores/sizing     500
//
// It has no code of its own.
package sizing
