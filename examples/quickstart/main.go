// Command quickstart embeds a node, appends one event to a tenant's ledger and reads it back. Run it
// twice: the second run finds the first one's event.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

func main() {
	ctx := context.Background()
	node := must(actors.Start(ctx, actors.Config{StateRoot: "quickstart-data"}))
	id := must(messages.DeriveTenant([]byte("a key of the organization, 32 B+"), "https://idp.example/acme", "user-1"))
	tenant := must(node.Tenant(ctx, "acme", id))
	done := must(tenant.Append(ctx, messages.Event{Kind: "trip.logged", IdemKey: "trip-1", Payload: []byte(`{"km":12}`)}))
	events, _, err := tenant.Events(ctx, 0, 10)
	fmt.Printf("seq %d, there already: %t, events: %d, first: %s\n", done.Seq, done.Duplicate, len(must(events, err)), events[0].Payload)
	if err := node.Shutdown(ctx); err != nil { // hands every tenant off: nothing is lost
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
