// Command node is the Leasehold daemon, and the tools that look at its stores.
//
//	node run                      serve tenants over HTTP, on the embedded defaults
//	node run --nats-embedded      the same, with a NATS server inside the node
//	node config                   print the effective configuration
//	node lease show [KEY]         who may serve which tenant
//	node lease history KEY        the audit trail of a lease
//	node snapshots list KEY       the durable copies of a tenant
//	node snapshots verify KEY     fetch and check every one of them
//	node restore KEY --to FILE    write a verified copy of a ledger to a file
//	node forget KEY               delete every copy of a tenant, for good
//	node migrate                  create the schema of a lease store in PostgreSQL or MariaDB
//	node version
//
// Every command takes --help; the tools take --json. Exit codes: 0 done, 1 failed, 2 wrong usage or
// configuration, 3 refused because somebody else holds the tenant, 4 a copy is corrupt.
package main

import (
	"os"

	"github.com/leasehold/leasehold/cmd/node/cli"
	"github.com/leasehold/leasehold/cmd/node/daemon/embedded"
	"github.com/leasehold/leasehold/cmd/node/storeurl/engines"
)

func main() {
	os.Exit(cli.Program{Schemes: engines.Schemes(), Cluster: embedded.NATS{}}.Main(os.Args[1:]))
}
