// Package client is the Go client of a cluster of Leasehold: it carries requests to tenants, wherever their
// owner is at the moment, from inside a node's process or from outside the cluster.
package client
