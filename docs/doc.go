// Package docs holds the documents of Leasehold. It has no code of its own: its tests check that the
// documents are true. Every shell and Go snippet of README.md and docs/ is run or compiled, the format
// described in protocol.md is compared with what a real node writes, the lists of flags, codes and
// planted faults are compared with the source, and contract-coverage.md names only tests that exist.
//
// Start with README.md one folder up, then protocol.md and operations.md.
package docs
