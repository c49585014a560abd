// Package snapshotactor does the slow work of a tenant with the durable store: it restores and pins,
// publishes snapshots, deletes old copies, and forgets.
package snapshotactor
