package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/cmd/node/cli"
	"github.com/leasehold/leasehold/cmd/node/daemon"
	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("os/signal.loop")) // the process's own, for ever
}

// A node with commands of its own: this is all of its main function. Its callers reach the command at
// POST /v1/orgs/{org}/tenants/{tenant}/commands/book.
func Example() {
	app := daemon.App{
		Migrations: []ledgeractor.Migration{{Version: 1, Name: "bookings", SQL: "CREATE TABLE bookings (id TEXT PRIMARY KEY)"}},
		Commands: map[string]ledgeractor.Command{
			"book": func(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
				return tx.Append(ctx, messages.Event{Kind: "booked", Payload: in})
			},
		},
	}
	args := os.Args[1:]
	args = []string{"lease", "show", "acme/no-such-tenant", "--json"} // instead of what this test was called with
	fmt.Println(cli.Main(args, app, storeurl.Embedded()) == cli.ExitUsage)
	// Output: true
}
