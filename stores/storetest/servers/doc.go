// Package servers starts real database servers for tests and for the drill: private instances in a temporary
// folder, on a random port of the loopback interface, that can be killed, frozen and started again; and a
// [Proxy] that cuts, holds and counts what passes between them and their clients.
//
// It needs the programs of the servers on this machine, and Linux. [PostgreSQL] and [MariaDB] return
// ErrNotInstalled without them; [ForTest] then skips the test, or fails it where CI is set.
package servers
